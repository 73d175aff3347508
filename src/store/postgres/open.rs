//! Opens the store: the server's address and the pools. This is in no subfolder, because it creates
//! the parts of several of them.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, Executor, PgConnection, PgPool};
use tokio::time::timeout;

use super::connection::options::{address, options};
use super::connection::pool::{ACQUIRE, PostgresConnections};
use crate::runtime::Mutex;
use crate::runtime::{Clock, Tasks};
use crate::store::postgres::claims::definition_cache::DefinitionCache;
use crate::store::postgres::{PostgresSettings, PostgresStore};
use crate::store::sql::connection::access::AdapterShared;
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::sql::months::Months;
use crate::store::sql::quotas::JobCounts;
use crate::store::{Result, SecretCipher};
use crate::telemetry::metrics::Pool;

/// The timeout of the check that an idle connection still works.
const PING: Duration = Duration::from_secs(1);
/// A connection that was idle for this long is checked before it is used.
const CHECKED_AFTER: Duration = Duration::from_secs(1);
/// A connection that was idle for this long is closed.
const IDLE: Duration = Duration::from_secs(300);

/// The settings of every connection.
///
/// - The keepalives: the server notices within about a minute that a replica is gone, and releases
///   its locks.
/// - The planner: statements look up few of many rows by key. A plan that scans a whole table is
///   the wrong one, whatever the statistics say about a partition that was created an hour ago.
/// - The stages' statements are planned each time: batches of one row and of many rows need
///   different plans, and only a plan for known ids excludes the partitions of other days.
const COMMON: &str = "
    SET statement_timeout = '5s'; SET synchronous_commit = on;
    SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 4;
    SET random_page_cost = 1.1; SET enable_seqscan = off; SET jit = off;";
/// Users' requests may wait for each other.
const API: &str = "
    SET plan_cache_mode = auto; SET lock_timeout = '3s'; SET idle_in_transaction_session_timeout = '5s';";
/// A stage must not hold the fence or rows if it is paused in the middle of a transaction, or if it
/// does not read its results. Its lock timeout is longer than dropping a day of history locks a
/// table.
const STAGE: &str = "
    SET plan_cache_mode = force_custom_plan; SET lock_timeout = '1s';
    SET idle_in_transaction_session_timeout = '1s'; SET tcp_user_timeout = '5s';";

impl PostgresStore {
    /// Prepares the pools for a database. `cipher` encrypts the secrets. This opens no connection,
    /// so it succeeds while the server is unavailable. It does not migrate: see
    /// [`migrate`](Self::migrate) and [`check_version`](Self::check_version).
    ///
    /// # Errors
    /// `Incompatible` if the URL cannot be used. A password file that cannot be read is reported
    /// when the store is used, because it may be readable by then.
    pub fn open(settings: &PostgresSettings, cipher: &SecretCipher) -> Result<Self> {
        let address = address(&settings.url).map_err(|error| error.of("open"))?;
        let options = options(settings).unwrap_or(address);
        let (tasks, settings) = (Tasks::new(), Arc::new(settings.clone()));
        let connections = |size, name: &'static str, whose, timeouts| {
            let pool = pool(options.clone().application_name(name), size, timeouts);
            PostgresConnections::new(pool, settings.clone(), tasks.clone(), whose)
        };
        let scheduler = Arc::new(connections(
            settings.scheduler_connections,
            "punctual scheduler",
            Pool::Scheduler,
            STAGE,
        ));
        let months = Months::new(tasks.clone(), Arc::new(JobCounts(scheduler.clone())));
        Ok(Self {
            shared: AdapterShared::new(cipher, months),
            api: connections(settings.api_connections, "punctual api", Pool::Api, API),
            scheduler,
            executor: connections(
                settings.executor_connections,
                "punctual executor",
                Pool::Executor,
                STAGE,
            ),
            present: AtomicI64::new(0),
            checked_days: tokio::sync::Mutex::default(),
            fenced: Mutex::default(),
            definitions: DefinitionCache::new(Clock::system()),
            settings,
            tasks,
        })
    }

    /// Opens a connection without timeouts, for migrations. Reads the password file for this
    /// connection and for all later ones.
    pub(super) async fn connect(&self) -> SqlResult<PgConnection> {
        for connections in [&self.api, &*self.scheduler, &self.executor] {
            connections.renew_password()?;
        }
        let options = options(&self.settings)?;
        let connected = timeout(ACQUIRE, options.connect()).await;
        Ok(connected.map_err(|_| SqlError::no_answer())??)
    }
}

fn pool(options: PgConnectOptions, size: u32, timeouts: &'static str) -> PgPool {
    PgPoolOptions::new()
        .max_connections(size.max(1))
        .acquire_timeout(ACQUIRE)
        .idle_timeout(IDLE)
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            Box::pin(async move {
                connection.execute(COMMON).await?;
                connection.execute(timeouts).await?;
                Ok(())
            })
        })
        .before_acquire(|connection, about| {
            Box::pin(async move {
                if about.idle_for < CHECKED_AFTER {
                    return Ok(true);
                }
                Ok(matches!(timeout(PING, connection.ping()).await, Ok(Ok(()))))
            })
        })
        // Work is never cancelled inside a transaction. If it ever is, the connection is closed.
        .after_release(|connection, _| {
            Box::pin(async move { Ok(!Connection::is_in_transaction(connection)) })
        })
        .connect_lazy_with(options)
}
