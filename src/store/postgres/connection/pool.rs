//! A pool of connections, and the work on them.
//!
//! A caller hands its work over to a task and waits for the result. So a caller that goes away does
//! not cancel a transaction half-way, and no connection returns to the pool in the middle of one. A
//! connection whose state is unknown is dropped and not returned: the return asks the server first,
//! and a server that does not answer would block it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::{Connection, PgConnection, PgPool, Postgres};
use tokio::sync::oneshot;
use tokio::time;

use super::options::renew_password;
use crate::runtime::{TaskKind, Tasks};
use crate::store::postgres::PostgresSettings;
use crate::store::sql::connection::access::WorkScope;
use crate::store::sql::connection::work::ResultCell;
use crate::store::sql::error::{Remedy, SqlError, SqlResult};
use crate::store::{Result, StoreErrorKind};
use crate::telemetry::metrics::{CallState, Pool, STORE_CALLS};

/// The time limit of a try of the work. The server's own timeouts end statements earlier, so this
/// is for a server that does not answer.
const TIMEOUT: Duration = Duration::from_secs(8);
/// The same limit for reads that scan whole tables.
const LONG_TIMEOUT: Duration = Duration::from_secs(3_600);
/// The maximum time that a caller waits for a connection.
pub(in crate::store::postgres) const ACQUIRE: Duration = Duration::from_secs(3);
/// The time limit of returning a connection to the pool.
const RETURN: Duration = Duration::from_secs(2);
/// The maximum number of tries of work that meets concurrent transactions.
const TRIES: u32 = 4;

/// Work that keeps its result, so that the code below is compiled once and not for each piece of
/// work.
pub(super) type PoolWork =
    Arc<dyn for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, SqlResult<()>> + Send + Sync>;

/// A pool of connections to the server, which are opened when they are needed.
pub(in crate::store) struct PostgresConnections {
    pool: PgPool,
    settings: Arc<PostgresSettings>,
    tasks: Tasks,
    whose: Pool,
}

impl PostgresConnections {
    pub(in crate::store::postgres) fn new(
        pool: PgPool,
        settings: Arc<PostgresSettings>,
        tasks: Tasks,
        whose: Pool,
    ) -> Self {
        Self { pool, settings, tasks, whose }
    }

    /// Runs work to its end, even if the caller goes away.
    pub(in crate::store::postgres) async fn run<T, W>(
        &self,
        operation: &'static str,
        scope: WorkScope,
        work: W,
    ) -> Result<T>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, SqlResult<T>> + Send + Sync + 'static,
    {
        self.try_run(scope, work).await.map_err(|error| error.of(operation))
    }

    /// Runs work like [`run`](Self::run), for callers that handle the failure themselves.
    pub(in crate::store::postgres) async fn try_run<T, W>(
        &self,
        scope: WorkScope,
        work: W,
    ) -> SqlResult<T>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, SqlResult<T>> + Send + Sync + 'static,
    {
        self.run_with_timeout(TIMEOUT, scope, work).await
    }

    /// Runs work whose tries may each take as long as `timeout`.
    pub(in crate::store::postgres) async fn run_with_timeout<T, W>(
        &self,
        timeout: Duration,
        scope: WorkScope,
        work: W,
    ) -> SqlResult<T>
    where
        T: Send + 'static,
        W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, SqlResult<T>> + Send + Sync + 'static,
    {
        let slot = ResultCell::new();
        let filled = slot.handle();
        let work: PoolWork = Arc::new(move |connection| {
            let (slot, running) = (filled.handle(), work(connection));
            Box::pin(async move { running.await.map(|result| slot.put(result)) })
        });
        self.run_untyped(timeout, scope, work).await?;
        slot.take()
    }

    /// Runs work that keeps its result.
    pub(super) async fn run_work(&self, scope: WorkScope, work: PoolWork) -> SqlResult<()> {
        let timeout = match scope {
            WorkScope::LongRead => LONG_TIMEOUT,
            _ => TIMEOUT,
        };
        self.run_untyped(timeout, scope, work).await
    }

    /// Runs work that keeps its result and whose tries may each take as long as `timeout`.
    async fn run_untyped(
        &self,
        timeout: Duration,
        scope: WorkScope,
        work: PoolWork,
    ) -> SqlResult<()> {
        if self.tasks.stopping().is_cancelled() {
            return Err(SqlError::new(StoreErrorKind::Unavailable, "the store is closed").void());
        }
        let (sender, receiver) = oneshot::channel();
        let task = run_on(self.pool.clone(), self.whose, timeout, scope, work, sender);
        self.tasks.spawn(TaskKind::Command, task);
        let lost = |_| SqlError::new(StoreErrorKind::Unavailable, "the work was abandoned");
        let outcome = receiver.await.map_err(lost).flatten();
        if let Err(error) = &outcome
            && error.remedy == Remedy::ReadPassword
        {
            self.renew_password()?;
        }
        outcome
    }

    /// Reads the password file again, for the connections that are opened from now on.
    pub(in crate::store::postgres) fn renew_password(&self) -> SqlResult<()> {
        renew_password(&self.pool, &self.settings)
    }

    /// Closes the pool and its connections. Later calls fail.
    pub(in crate::store::postgres) async fn close(&self) {
        self.pool.close().await;
    }
}

/// Takes a connection, runs work on it, sends the outcome to the caller, and returns the connection
/// to the pool.
async fn run_on(
    pool: PgPool,
    whose: Pool,
    timeout: Duration,
    scope: WorkScope,
    work: PoolWork,
    caller: oneshot::Sender<SqlResult<()>>,
) {
    let waiting = STORE_CALLS.with((whose, CallState::Waiting)).hold();
    let connected = time::timeout(ACQUIRE, pool.acquire()).await;
    drop(waiting);
    // In all cases, the caller may have gone away.
    let connection = match connected.unwrap_or(Err(sqlx::Error::PoolTimedOut)) {
        Ok(connection) => connection,
        Err(error) => {
            let _ = caller.send(Err(SqlError::from(error).void()));
            return;
        }
    };
    let _connected = STORE_CALLS.with((whose, CallState::Connected)).hold();
    let (outcome, connection) = work_on(connection, timeout, scope, &work).await;
    let back = async {
        if let Some(connection) = connection {
            put_back(connection).await;
        }
    };
    if outcome.is_err() && matches!(scope, WorkScope::Read | WorkScope::Statement) {
        // The server reports an error before it releases the locks, so the caller gets it after the
        // return of the connection, which waits for the server. Work in a transaction was rolled
        // back already.
        back.await;
        let _ = caller.send(outcome);
    } else {
        let _ = caller.send(outcome);
        back.await;
    }
}

/// Runs work, and repeats it if it met a concurrent transaction. Returns the connection if its
/// state is known.
async fn work_on(
    mut connection: PoolConnection<Postgres>,
    timeout: Duration,
    scope: WorkScope,
    work: &PoolWork,
) -> (SqlResult<()>, Option<PoolConnection<Postgres>>) {
    let mut tries = 1;
    loop {
        let outcome = time::timeout(timeout, once(&mut connection, scope, work))
            .await
            .unwrap_or_else(|_| Err(SqlError::no_answer()));
        match outcome {
            Err(error) if error.remedy == Remedy::Repeat && tries < TRIES => tries += 1,
            Err(error) if error.remedy == Remedy::Reconnect => {
                drop(connection.detach());
                return (Err(error.midway()), None);
            }
            outcome => return (outcome, Some(connection)),
        }
    }
}

async fn once(connection: &mut PgConnection, scope: WorkScope, work: &PoolWork) -> SqlResult<()> {
    let begin = match scope {
        WorkScope::Read | WorkScope::Statement => return work(connection).await,
        // The rows that it locks are read as they are after the lock.
        WorkScope::Transaction => "BEGIN",
        // Other commits take less.
        WorkScope::BriefLockTransaction => "BEGIN; SET LOCAL lock_timeout = '250ms'",
        WorkScope::Snapshot => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        WorkScope::LongRead => "BEGIN; SET LOCAL statement_timeout = 0",
    };
    let mut transaction = connection.begin_with(begin).await?;
    match work(&mut transaction).await {
        Ok(()) => Ok(transaction.commit().await?),
        Err(error) if error.remedy == Remedy::Reconnect => Err(error),
        Err(error) => match transaction.rollback().await {
            Ok(()) => Err(error),
            Err(_) => Err(error.with(Remedy::Reconnect)),
        },
    }
}

/// Returns a connection to the pool, or drops it if the server does not answer.
async fn put_back(mut connection: PoolConnection<Postgres>) {
    // The drop of the connection would do the same without a timeout.
    let returned = time::timeout(RETURN, connection.return_to_pool()).await;
    if returned.is_err() {
        tracing::warn!("dropped a connection to the store: the server does not answer");
    }
}
