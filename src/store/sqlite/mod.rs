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

mod access;
mod checkup;
mod claims;
mod commit;
mod copy;
mod definition;
mod ending;
mod fire;
mod firing;
mod halves;
mod late;
mod lock;
mod open;
#[cfg(test)]
mod plans;
mod prune;
mod readers;
mod runs;
mod upkeep;
mod values;
mod version;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteConnectOptions;

pub use checkup::{check_up, free_bytes};
pub use lock::ServerLock;

use super::Result;
use super::damage::Damage;
use super::months::Months;
use super::vault::Vault;
use crate::runtime::Tasks;
use crate::store::sql::fault::{Fault, Outcome};
use access::Connections;

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
    connections: Connections,
    tasks: Tasks,
    damage: Arc<Damage>,
    vault: Vault,
    months: Months,
}

impl SqliteStore {
    /// Ends the work that was handed over and closes the file. Later calls fail.
    pub async fn close(&self) {
        self.tasks.finish(CLOSE_GRACE).await;
        self.connections.readers.close().await;
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
        self.connections.writer.write(operation, rows, work).await
    }
}

/// Gives a failure of the adapter's inner functions the name of the contract's method.
fn failed_in(operation: &'static str) -> impl Fn(Fault) -> super::StoreError {
    move |fault| fault.of(operation)
}
