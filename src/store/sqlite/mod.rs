//! The store in one SQLite file.
//!
//! Place in the flow: the adapter for one machine and one serving process. Operator commands may
//! work on the same file beside it; a second server is kept away by [`SqliteStore::lock`].
//!
//! How it keeps the contract:
//! - One connection writes (`writer`), a few read. Write transactions are IMMEDIATE and run in a
//!   task of their own, so that a dropped future cannot cut one in two.
//! - Write-ahead log with a flush at each commit: what was acknowledged survives a loss of power.
//! - Batches are one statement each with one JSON parameter; a job costs one insert and two
//!   updates of its row, and two updates of its schedule's state.
//! - The last attempt of a job is in the job's row. An attempt whose outcome allows another one is
//!   copied to `attempts` when it is committed. So a job of one attempt has no row there, and the
//!   attempts of a job are those rows and, unless its number is among them, the one in the job's
//!   row.
//! - NUL, which PostgreSQL's texts cannot hold, becomes U+FFFD in responses, as do bytes that are
//!   not UTF-8.
//! - Pages of pruned rows are used again, the file does not shrink: a history in its steady state
//!   needs the same room again the next day.
//!
//! On failure a write is undone whole. After a failure of the file itself the writing connection
//! is made anew, so that the store works again as soon as the disk does.

#[allow(clippy::duplicate_mod, reason = "one text, over the connections of both adapters")]
#[path = "../account_changes.rs"]
mod account_changes;
mod account_lock;
mod accounts;
mod audit;
#[allow(clippy::duplicate_mod, reason = "one text, over the connections of both adapters")]
#[path = "../audit_entries.rs"]
mod audit_entries;
mod batch_rows;
mod change;
mod checkup;
mod claims;
mod commit;
mod copy;
mod definition;
mod ending;
mod erase;
mod error;
mod fire;
mod firing;
mod halves;
mod idempotency;
mod job_list;
mod jobs;
#[allow(clippy::duplicate_mod, reason = "one text, over the connections of both adapters")]
#[path = "../key_changes.rs"]
mod key_changes;
mod late;
mod leadership;
mod lock;
mod notifications;
#[allow(clippy::duplicate_mod, reason = "one text, over the connections of both adapters")]
#[path = "../notifying/mod.rs"]
mod notifying;
mod open;
mod overlap;
#[cfg(test)]
mod plans;
mod prune;
mod quotas;
mod readers;
#[allow(clippy::duplicate_mod, reason = "one text, over the connections of both adapters")]
#[path = "../removing.rs"]
mod removing;
#[allow(clippy::duplicate_mod, reason = "one text, over the connections of both adapters")]
#[path = "../reservations.rs"]
mod reservations;
mod runs;
mod schedule_list;
mod schedules;
#[allow(clippy::duplicate_mod, reason = "one text, over the connections of both adapters")]
#[path = "../secret_rows.rs"]
mod secret_rows;
mod secrets;
mod signing;
mod skips;
mod tickets;
mod upkeep;
#[allow(clippy::duplicate_mod, reason = "one text, over the connections of both adapters")]
#[path = "../user_changes.rs"]
mod user_changes;
mod user_locks;
mod users;
mod values;
mod version;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::query::QueryAs;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions};
use sqlx::{Sqlite, SqliteConnection};

pub use checkup::{check_up, free_bytes};
pub use lock::ServerLock;

use super::Result;
use super::damage::Damage;
use super::months::Months;
use super::vault::Vault;
use crate::runtime::Tasks;
use error::{Fault, Outcome};
use readers::Readers;
use writer::Writer;

/// What the files that both adapters have call it.
type Connection = SqliteConnection;
/// A query for rows that are read as a `T`.
type Read<T> = QueryAs<'static, Sqlite, T, SqliteArguments>;

/// How long closing waits for writes that are under way.
const CLOSE_GRACE: Duration = Duration::from_secs(10);

/// Where the store is and how it is used.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file; it is made if it does not exist, its folder is not.
    pub path: PathBuf,
    /// How many connections read.
    pub read_connections: u32,
    /// The size in bytes that the file may grow to; absent: what the disk takes.
    pub max_bytes: Option<u64>,
}

impl Settings {
    /// The usual settings for a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), read_connections: 4, max_bytes: None }
    }
}

/// The store in one SQLite file.
pub struct SqliteStore {
    path: PathBuf,
    options: SqliteConnectOptions,
    /// Whether this is the server that uses the file.
    locked: AtomicBool,
    writer: Writer,
    readers: Arc<Readers>,
    tasks: Tasks,
    damage: Arc<Damage>,
    vault: Vault,
    months: Months,
}

impl SqliteStore {
    /// Ends the work that was handed over and closes the file. Later calls fail.
    pub async fn close(&self) {
        self.tasks.finish(CLOSE_GRACE).await;
        self.readers.close().await;
    }

    /// Runs `work` in a write transaction, to its end even if the caller goes away.
    async fn write<T, W>(&self, operation: &'static str, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Outcome<T>> + Send + 'static,
    {
        self.write_rows(operation, 1, work).await
    }

    /// The same for a batch of about so many rows.
    async fn write_rows<T, W>(&self, operation: &'static str, rows: usize, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Outcome<T>> + Send + 'static,
    {
        self.writer.write(operation, rows, work).await
    }
}

/// Gives a failure of the adapter's inner functions the name of the contract's method.
fn failed_in(operation: &'static str) -> impl Fn(Fault) -> super::StoreError {
    move |fault| fault.of(operation)
}
