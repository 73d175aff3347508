//! The store in a PostgreSQL database, 13 or later.
//!
//! Place in the flow: the adapter for several replicas. They need nothing of each other: what they
//! agree on is in the rows.
//!
//! Connections (`open`, `pool`, `places`): three pools, so that no stage waits behind another. Users'
//! requests have one (accounts, users, schedules, jobs), leaders and sweeps one (firing, upkeep),
//! executors one (claims). Each method is one statement or one short transaction, in a task that a caller who
//! goes away does not stop. Behind PgBouncer, use its session mode: connections keep settings and
//! prepared statements.
//!
//! Locks. Whoever takes several takes them in this order, and rows of one kind in the order of
//! their ids, so that nobody waits in a circle:
//!
//! 1. `accounts`: who does anything to schedules and jobs by hand shares the key of the account's row,
//!    so that suspending or deleting it comes before or after; who makes what a plan limits takes the
//!    row, to count alone.
//! 2. `shards`: leaders share their shard's row while they fire; who raises the epoch waits for
//!    them, and they for him (LEAD-1). Who suspends, resumes or deletes an account or changes its plan
//!    takes these rows one after the other, each by itself, after the account's: leaders read anew
//!    what they fire.
//! 3. `schedules`: a change or delete takes the row; who makes a job by hand shares its key.
//! 4. `schedule_state`: firing, committing, cancelling, changing and deleting take the row. It is
//!    what serializes them (overlap, skips), and holds all that firing must know. A statement that
//!    has waited for a row sees that row as it is then, and everything else as it was when the
//!    statement began: so nobody decides by another row in the same statement. Who makes a job by
//!    hand does: whatever it waits for has come first, and what it does not wait for has not.
//! 5. `jobs`: claiming, renewing, committing, cancelling and deleting take the rows they change.
//!    Committing first tries to do with the locks of writing; if somebody has changed a job since its
//!    claim told of it, or it was read, it begins anew and locks before it reads.
//! 6. `skips`, `attempts`, `schedule_versions`, `signing_secrets`: written under one of the locks
//!    above; what is over goes without, past rows that somebody holds.
//! 7. `account_months`: who makes a job that a plan limits takes the account's counter, after the
//!    schedule and before the job. Leaders take those of several accounts, and nothing else, in the
//!    order of their accounts; they pass over those that are held.
//!
//! What users are and belong to touches only the first of these: `accounts` comes before `users`, and
//! both before what depends on them.
//!
//! A call's row of `idempotency_keys` is wanted by nobody else but those who ask for its key.
//!
//! Rows that somebody else holds for long, an operator perhaps, are not waited for. Claiming,
//! renewing, firing and sweeping pass over what is locked (`SKIP LOCKED`) and say what they left;
//! committing waits a moment, and then goes past it too (`passing`).
//!
//! Partitions (`partitions`): a day (UTC) of jobs and of their attempts is a table of its own.
//! There is none for ids of other days. `prepare` makes them ahead of time, and back to the oldest
//! tick that may still be fired; whoever finds one missing makes it. `prune` drops whole days.
//!
//! The last attempt of a job is in the job's row, as in the adapter for SQLite. NUL, which
//! PostgreSQL's texts cannot hold, becomes U+FFFD in responses, as do bytes that are not UTF-8.
//!
//! On failure a transaction is undone whole, and tried again at once if it met another one. A
//! connection whose state is in doubt is dropped. Waits are bounded: three seconds for a
//! connection, then five for a statement, one for a lock (three for users' requests, a quarter for the
//! rows of a commit); a server that does not even say that time is up is given up after eight. When it is
//! back, so is the store.

mod access;
mod attempts;
mod batch;
mod checkup;
mod claims;
mod commit;
mod copy;
mod definitions;
mod ending;
mod fence;
mod fire;
mod firing;
mod late;
mod lock_table;
mod open;
mod options;
mod others;
mod partitions;
mod passing;
mod places;
mod pool;
mod prune;
mod runs;
mod upkeep;
mod values;
mod version;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::damage::Damage;
use super::months::Months;
use super::vault::Vault;
use crate::domain::AccountId;
use crate::runtime::Tasks;
use crate::store::sql::fault::Fault;
pub use checkup::{Deployment, check_up};
use definitions::Definitions;
use pool::{Connections, Within};

/// How long closing waits for work that is under way.
const CLOSE_GRACE: Duration = Duration::from_secs(10);

/// Where the store is and how it is used.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// `postgres://user:password@host:port/database`, with `sslmode`, `sslrootcert`, `sslcert` and
    /// `sslkey` as parameters. Secret, for the password.
    pub url: String,
    /// A file that holds the password instead; read again when the server refuses it.
    pub password_file: Option<PathBuf>,
    /// How many connections serve users' requests, at most.
    pub api_connections: u32,
    /// How many connections serve leaders and sweeps, at most.
    pub scheduler_connections: u32,
    /// How many connections serve executors, at most.
    pub executor_connections: u32,
}

impl Settings {
    /// The usual settings for a database.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            password_file: None,
            api_connections: 16,
            scheduler_connections: 8,
            executor_connections: 12,
        }
    }

    /// The same, if the URL can be used.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn parse(url: impl Into<String>) -> Result<Self, String> {
        let settings = Self::new(url);
        match options::address(&settings.url) {
            Ok(_) => Ok(settings),
            Err(fault) => Err(fault.message),
        }
    }
}

impl Settings {
    /// The server's host and port, if it may be reached over TLS.
    pub fn tls_server(&self) -> Option<(String, u16)> {
        options::tls_server(&self.url)
    }
}

impl fmt::Debug for Settings {
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
    settings: Arc<Settings>,
    api: Connections,
    scheduler: Arc<Connections>,
    executor: Connections,
    /// The last instant that `prepare` was told, in milliseconds: how old a day is.
    present: AtomicI64,
    /// The days that are over and have a job that ended late, and when that was found.
    late_days: tokio::sync::Mutex<BTreeMap<partitions::Day, i64>>,
    damage: Arc<Damage>,
    definitions: Definitions,
    vault: Vault,
    /// The deleted accounts of which leaders have read anew.
    fenced: Mutex<HashSet<AccountId>>,
    months: Months,
    tasks: Tasks,
}

impl PostgresStore {
    /// Ends the work that was handed over and closes the connections. Later calls fail.
    pub async fn close(&self) {
        self.tasks.finish(CLOSE_GRACE).await;
        for connections in [&self.api, &*self.scheduler, &self.executor] {
            connections.close().await;
        }
    }
}

/// Gives a failure of the adapter's inner functions the name of the contract's method.
fn failed_in(operation: &'static str) -> impl Fn(Fault) -> super::StoreError {
    move |fault| fault.of(operation)
}
