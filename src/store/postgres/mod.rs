//! The store in a PostgreSQL database, 13 or later.
//!
//! Place in the flow: the adapter for several replicas. They share nothing but the rows of the
//! database.
//!
//! # Connections
//!
//! There are three pools, so that no stage waits behind another:
//!
//! - `api`: users' requests and operators' commands,
//! - `scheduler`: leaders (firing, epochs, quotas), the leases of replicas, the notifier, upkeep,
//!   figures of the installation, the sample of the clock and `/readyz`,
//! - `executor`: executors (claims, commits, leases) and the job rescuer.
//!
//! Each method is one statement or one short transaction. It runs in a task of its own, which goes
//! on if the caller goes away. Behind PgBouncer, use its session mode: connections keep settings
//! and prepared statements.
//!
//! # The order of locks
//!
//! Danger: two transactions that lock the same rows in different orders wait for each other
//! (deadlock).
//!
//! Rule: a transaction takes its locks in the order of this list, and rows of one table in the
//! order of their ids.
//!
//! 1. `accounts`. A user's change of schedules or jobs locks the account's row `FOR KEY SHARE`, so
//!    that a suspension or deletion of the account comes wholly before or after it. A transaction
//!    that adds what a plan limits locks the row `FOR NO KEY UPDATE`, so that it counts alone.
//! 2. `shards`. Leaders lock their shard's row `FOR SHARE` while they fire. Raising the epoch waits
//!    for them, and firing skips a shard whose row is locked (LEAD-1). Suspending, resuming or
//!    deleting an account, or changing its plan, updates these rows after the account's row: one
//!    after the other, each in a transaction of its own. Then the leaders read again what they
//!    fire.
//! 3. `schedules`. A change or deletion locks the row. Creating a manual job locks the row
//!    `FOR KEY SHARE`.
//! 4. `schedule_state`. Firing, committing, cancelling, changing and deleting lock the row. This
//!    row serializes them (overlap, skips), and it holds everything that firing must know.
//! 5. `runs`. Claiming, committing, cancelling and deleting lock the rows that they change. A
//!    commit first takes only the locks of its own writes. If a job was changed after its claim
//!    returned it, or after it was read, the commit starts again, and locks the jobs before it
//!    reads them.
//! 6. `skips`, `attempts`, `schedule_versions`, `signing_secrets`. These are written under one of
//!    the locks above. The removal of old rows needs none of those locks, and skips locked rows.
//! 7. `account_months`. Creating a job that a plan limits locks the account's counter, after the
//!    schedule and before it inserts the job. Leaders lock the counters of several accounts in the
//!    order of the accounts, and nothing else. They skip counters that are locked.
//! 8. `account_hours`. Ending jobs adds to rows that are free, and waits for none.
//!
//! Changes of users and their memberships take only the first of these locks: `accounts` comes
//! before `users`, and both come before the rows that depend on them.
//!
//! Only calls with the same idempotency key compete for a row of `idempotency_keys`.
//!
//! # Reads after a lock
//!
//! Danger: a statement that waited for a row sees the new version of that row, but all other rows
//! as they were when the statement began.
//!
//! Rule: a statement that locks a row decides nothing by another row.
//!
//! Exception: the statement that creates a manual job. A transaction that it waited for comes
//! before the job, and a transaction that it did not wait for comes after it.
//!
//! # Rows that are locked for long
//!
//! Danger: another transaction, perhaps an operator's, may hold a row for long.
//!
//! Rule: a stage does not wait for such a row, or only for a moment. Firing and claiming skip
//! locked rows (`SKIP LOCKED`). Firing reports the schedules that it skipped; a job that a claim
//! skipped is missing from the result. Renewing skips old leases that are locked. The job rescuer
//! reads without locks. Committing waits for a moment, and then skips locked rows, too
//! (`skip_locked`).
//!
//! # Partitions
//!
//! Module: `partitions`. Each day (UTC) of `jobs` and of `attempts` is a table. There is no default
//! partition for ids of other days. `prepare` creates partitions ahead of time, and back to the
//! oldest tick that may still fire. A call that finds one missing creates it. `prune` drops whole
//! days.
//!
//! # Values
//!
//! The last attempt of a job is in the job's row, as in the adapter for SQLite. PostgreSQL's texts
//! cannot hold NUL. In responses, NUL and bytes that are not UTF-8 become U+FFFD.
//!
//! # Failure
//!
//! A failed transaction is rolled back as a whole. If it failed because of a concurrent one, it is
//! repeated at once. A connection whose state is unknown is dropped. All waits have a timeout:
//!
//! - 3 s for a connection,
//! - 5 s for a statement,
//! - 1 s for a lock (3 s for users' requests, 250 ms for the rows of a commit),
//! - 8 s for a server that does not even report its own timeouts.
//!
//! The store works again as soon as the server does.

mod account_fence;
mod claims;
mod commits;
mod connection;
mod firing;
mod history;
mod open;
mod transfer;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use crate::domain::AccountId;
use crate::runtime::{Mutex, Tasks};
use crate::store::sql::connection::access::AdapterShared;
use crate::store::sql::error::failed_in;
use claims::definition_cache::DefinitionCache;
pub use connection::checkup::{Deployment, check_up};
use connection::pool::PostgresConnections;
use history::partitions::Day;
use history::prune::DayCheck;

/// The maximum time that closing waits for work in progress.
const CLOSE_GRACE: Duration = Duration::from_secs(10);

/// The address of the database, and the sizes of the pools.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresSettings {
    /// `postgres://user:password@host:port/database`, with `sslmode`, `sslrootcert`, `sslcert` and
    /// `sslkey` as parameters. Secret, because of the password.
    pub url: String,
    /// A file with the password, which replaces the one in the URL. It is read again when the
    /// server rejects the password.
    pub password_file: Option<PathBuf>,
    /// The maximum number of connections of the pool `api`.
    pub api_connections: u32,
    /// The maximum number of connections of the pool `scheduler`.
    pub scheduler_connections: u32,
    /// The maximum number of connections of the pool `executor`.
    pub executor_connections: u32,
}

impl PostgresSettings {
    /// Returns the default settings for a database.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            password_file: None,
            api_connections: 16,
            scheduler_connections: 8,
            executor_connections: 12,
        }
    }

    /// Returns the default settings, if the URL can be used.
    ///
    /// # Errors
    /// Returns a sentence that names the error in the URL.
    pub fn parse(url: impl Into<String>) -> Result<Self, String> {
        let settings = Self::new(url);
        match connection::options::address(&settings.url) {
            Ok(_) => Ok(settings),
            Err(error) => Err(error.message),
        }
    }

    /// Returns the server's host and port, if it may be reached over TLS.
    pub fn tls_server(&self) -> Option<(String, u16)> {
        connection::options::tls_server(&self.url)
    }
}

impl fmt::Debug for PostgresSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("password_file", &self.password_file)
            .field("api_connections", &self.api_connections)
            .field("scheduler_connections", &self.scheduler_connections)
            .field("executor_connections", &self.executor_connections)
            .finish_non_exhaustive()
    }
}

/// The store in a PostgreSQL database.
pub struct PostgresStore {
    settings: Arc<PostgresSettings>,
    api: PostgresConnections,
    scheduler: Arc<PostgresConnections>,
    executor: PostgresConnections,
    /// The newest time that was passed to `prepare`, in milliseconds. The ages of days are relative
    /// to it.
    present: AtomicI64,
    /// The days that were found over or late and are still there, and the times of these checks, in
    /// milliseconds.
    checked_days: tokio::sync::Mutex<BTreeMap<Day, (DayCheck, i64)>>,
    definitions: DefinitionCache,
    /// The deleted accounts for which this replica has fenced the shards.
    fenced: Mutex<HashSet<AccountId>>,
    shared: AdapterShared,
    tasks: Tasks,
}

impl PostgresStore {
    /// Finishes the work in progress and closes the connections. Later calls fail.
    pub async fn close(&self) {
        self.tasks.finish(CLOSE_GRACE).await;
        for connections in [&self.api, &*self.scheduler, &self.executor] {
            connections.close().await;
        }
    }
}
