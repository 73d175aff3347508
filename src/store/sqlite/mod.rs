//! The store in one SQLite file.
//!
//! Place in the flow: the adapter for one machine and one serving process. Operator commands can
//! use the same file at the same time. [`SqliteStore::lock`] keeps a second server away.
//!
//! The contract is kept by these rules:
//! - One connection writes (`writer`), and a few read. Write transactions are IMMEDIATE and run in
//!   a task of their own, so that a caller that goes away does not cancel one half-way.
//! - Each commit flushes the write-ahead log, so committed data survives a power failure.
//! - A batch is one statement with one JSON parameter. A job of one attempt costs an insert into
//!   `runs`, an update of that row (unless firing claims the job at once), a move from `runs` to
//!   `jobs`, and two updates of its schedule's state.
//! - The last attempt of a job is in the job's row. An attempt whose outcome allows another one is
//!   copied to `attempts` when it is committed. So a job has no row there if the outcome of its
//!   first attempt is not retryable. The attempts of a job are its rows in `attempts` and the one
//!   in the job's row, unless its number is among them.
//! - PostgreSQL's texts cannot hold NUL. In responses, NUL and bytes that are not UTF-8 become
//!   U+FFFD here, too.
//! - Pages of pruned rows are used again. The file does not shrink: history in a steady state needs
//!   the same space again the next day.
//!
//! On failure a write is rolled back as a whole. After a failure of the file itself, the writing
//! connection is opened again, so that the store works as soon as the disk does.

mod claims;
mod commits;
mod connection;
mod firing;
mod history;
#[cfg(test)]
mod query_plans;
#[cfg(test)]
pub(crate) mod temporary;
mod transfer;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sqlx::sqlite::SqliteConnectOptions;

pub use connection::checkup::{check_up, free_bytes};
pub use connection::lock::ServerLock;

use crate::runtime::Tasks;
use crate::store::sql::connection::access::AdapterShared;
use crate::store::sql::error::failed_in;
use connection::access::SqliteConnections;

/// The maximum time that closing waits for writes in progress.
const CLOSE_GRACE: Duration = Duration::from_secs(10);

/// The file, its maximum size, and the number of connections.
#[derive(Clone, Debug)]
pub struct SqliteSettings {
    /// The path of the file. The file is created if it does not exist; its folder is not.
    pub path: PathBuf,
    /// The maximum number of connections that read.
    pub read_connections: u32,
    /// The maximum size of the file, in bytes. Absent: as much as the disk has room for.
    pub max_bytes: Option<u64>,
}

impl SqliteSettings {
    /// Returns the default settings for a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), read_connections: 4, max_bytes: None }
    }
}

/// The store in one SQLite file.
pub struct SqliteStore {
    path: PathBuf,
    options: SqliteConnectOptions,
    /// `true` if this process is the server that uses the file.
    locked: AtomicBool,
    connections: SqliteConnections,
    tasks: Tasks,
    shared: AdapterShared,
}

impl SqliteStore {
    /// Finishes the work in progress and closes the file. Later calls fail.
    pub async fn close(&self) {
        self.tasks.finish(CLOSE_GRACE).await;
        self.connections.readers.close().await;
    }
}
