//! Hands the statements that both databases share over to the pools.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use sqlx::{ConnectOptions, Connection as _, Executor, PgConnection};

use super::options::options;
use super::pool::{PostgresConnections, Within};
use crate::domain::AccountId;
use crate::store::postgres::{PostgresSettings, PostgresStore, failed_in};
use crate::store::sql::access::{Access, AdapterShared, Database, UnitOfWork};
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::fault::SqlResult;
use crate::store::sql::secrets::proofs;
use crate::store::{KeyProof, Result, StoreErrorKind};

/// The time limit of reads that scan whole tables.
const PATIENCE: Duration = Duration::from_secs(3_600);

impl Database for PostgresStore {
    type Access = PostgresConnections;

    fn api(&self) -> &PostgresConnections {
        &self.api
    }

    fn scheduler(&self) -> &PostgresConnections {
        &self.scheduler
    }

    fn executor(&self) -> &PostgresConnections {
        &self.executor
    }

    fn shared(&self) -> &AdapterShared {
        &self.shared
    }

    async fn history_transaction<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl UnitOfWork<T>,
    ) -> Result<T> {
        let work = Arc::new(work);
        let done = self.run_with_days(&self.api, Within::Transaction, move |connection| {
            let work = work.clone();
            Box::pin(async move { work_on(connection, &*work).await })
        });
        done.await.map_err(failed_in(operation))
    }

    async fn fence_plan(&self, operation: &'static str, account: AccountId) -> Result<()> {
        self.fence_shards(operation, account).await
    }

    async fn fence_suspension(&self, operation: &'static str, account: AccountId) -> Result<()> {
        self.drain(operation, account).await?;
        self.fence_shards(operation, account).await
    }

    /// Fences the account once in each replica that removes its rows.
    async fn fence_deleted(&self, account: AccountId) -> Result<()> {
        let fenced = || self.fenced.lock().unwrap_or_else(PoisonError::into_inner);
        if !fenced().contains(&account) {
            self.fence_shards("erase", account).await?;
            fenced().insert(account);
        }
        Ok(())
    }
}

/// Runs work on the connection type that both databases share.
async fn work_on<T>(connection: &mut PgConnection, work: &impl UnitOfWork<T>) -> SqlResult<T> {
    let mut connection = Connection::from(connection);
    work(&mut connection).await
}

impl Access for PostgresConnections {
    const DIALECT: Dialect = Dialect::Postgres;

    async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl UnitOfWork<T>,
    ) -> Result<T> {
        self.run_shared(operation, Within::Statement, work).await
    }

    async fn snapshot<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl UnitOfWork<T>,
    ) -> Result<T> {
        self.run_shared(operation, Within::Snapshot, work).await
    }

    async fn patient_read<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl UnitOfWork<T>,
    ) -> Result<T> {
        let work = Arc::new(work);
        let read = self.patiently(PATIENCE, Within::Transaction, move |connection| {
            let work = work.clone();
            Box::pin(async move {
                connection.execute("SET LOCAL statement_timeout = 0").await?;
                work_on(connection, &*work).await
            })
        });
        read.await.map_err(failed_in(operation))
    }

    async fn statement<T: Send + 'static>(
        &self,
        operation: &'static str,
        _: usize,
        work: impl UnitOfWork<T>,
    ) -> Result<T> {
        self.run_shared(operation, Within::Statement, work).await
    }

    async fn batch<T: Send + 'static>(
        &self,
        operation: &'static str,
        _: usize,
        work: impl UnitOfWork<T>,
    ) -> Result<T> {
        self.run_shared(operation, Within::Transaction, work).await
    }

    async fn impatient_transaction<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl UnitOfWork<T>,
    ) -> Result<Option<T>> {
        match self.run_shared(operation, Within::Impatience, work).await {
            Err(error) if error.kind() == StoreErrorKind::Locked => Ok(None),
            done => done.map(Some),
        }
    }
}

impl PostgresConnections {
    async fn run_shared<T: Send + 'static>(
        &self,
        operation: &'static str,
        within: Within,
        work: impl UnitOfWork<T>,
    ) -> Result<T> {
        let work = Arc::new(work);
        let done = self.run(operation, within, move |connection| {
            let work = work.clone();
            Box::pin(async move { work_on(connection, &*work).await })
        });
        done.await
    }
}

impl PostgresStore {
    /// Returns the keys that secrets of a database may be encrypted with. Changes nothing.
    ///
    /// # Errors
    /// If the server does not answer or rejects the query.
    pub async fn stored_keys(settings: &PostgresSettings) -> Result<Vec<KeyProof>> {
        let read = async {
            let mut connection = options(settings)?.connect().await?;
            let is_there = sqlx::query_scalar("SELECT to_regclass('secret_keys') IS NOT NULL");
            let is_there: bool = is_there.fetch_one(&mut connection).await?;
            let shared = &mut Connection::from(&mut connection);
            let found = if is_there { proofs(shared).await? } else { Vec::new() };
            connection.close().await?;
            Ok(found)
        };
        read.await.map_err(failed_in("stored_keys"))
    }
}
