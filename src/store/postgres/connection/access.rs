//! Hands the statements that both databases share over to the pools.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use sqlx::{ConnectOptions, Connection as _};

use super::options::options;
use super::pool::{PoolWork, PostgresConnections};
use crate::domain::AccountId;
use crate::store::postgres::{PostgresSettings, PostgresStore, failed_in};
use crate::store::sql::connection::access::{Access, AdapterShared, Database, WorkScope};
use crate::store::sql::connection::work::ErasedWork;
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::error::SqlResult;
use crate::store::sql::secrets::proofs;
use crate::store::{KeyProof, Result};

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

    fn run_with_history(&self, work: ErasedWork) -> BoxFuture<'_, SqlResult<()>> {
        let work = on_pool(work);
        Box::pin(
            self.run_with_days(&self.api, WorkScope::Transaction, move |connection| {
                work(connection)
            }),
        )
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
        if !self.fenced.lock().contains(&account) {
            self.fence_shards("erase", account).await?;
            self.fenced.lock().insert(account);
        }
        Ok(())
    }
}

/// Returns work of both databases as work of this one.
fn on_pool(work: ErasedWork) -> PoolWork {
    Arc::new(move |connection| {
        let work = work.clone();
        Box::pin(async move { work(&mut Connection::from(connection)).await })
    })
}

impl Access for PostgresConnections {
    const DIALECT: Dialect = Dialect::Postgres;

    fn run(&self, scope: WorkScope, _: usize, work: ErasedWork) -> BoxFuture<'_, SqlResult<()>> {
        Box::pin(self.run_work(scope, on_pool(work)))
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
