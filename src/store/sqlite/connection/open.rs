//! Opens the file.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection};

use super::access::SqliteConnections;
use super::readers::Readers;
use super::writer::SqliteWriter;
use crate::runtime::Tasks;
use crate::store::sql::connection::Connection;
use crate::store::sql::connection::access::AdapterShared;
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::sql::months::Months;
use crate::store::sql::quotas::JobCounts;
use crate::store::sql::secrets::proofs;
use crate::store::sqlite::{SqliteSettings, SqliteStore, failed_in};
use crate::store::{KeyProof, Result, SecretCipher, StoreErrorKind};

/// The maximum time that a write waits for another process's write, and a read for a free
/// connection.
const TIMEOUT: Duration = Duration::from_secs(5);
/// After this many pages (16 MiB), the log is copied into the file. That is few enough to take only
/// milliseconds, and enough that a busy page is copied once for many writes.
const CHECKPOINT_PAGES: &str = "4000";
/// The size in bytes to which the log is truncated when it restarts: 64 MiB.
const LOG_BYTES: &str = "67108864";
const PAGE_BYTES: u64 = 4_096;

impl SqliteStore {
    /// Returns the keys that secrets of a file may be encrypted with. Creates no file.
    ///
    /// # Errors
    /// If there is a file that cannot be read.
    pub async fn stored_keys(settings: &SqliteSettings) -> Result<Vec<KeyProof>> {
        let read = async {
            if !settings.path.is_file() {
                return Ok(Vec::new());
            }
            let mut connection = reading(settings).connect().await?;
            let tables: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'secret_keys'",
            )
            .fetch_one(&mut connection)
            .await?;
            match tables {
                0 => Ok(Vec::new()),
                _ => proofs(&mut Connection::from(&mut connection)).await,
            }
        };
        read.await.map_err(failed_in("stored_keys"))
    }

    /// Opens the file, and creates it if it does not exist. `cipher` encrypts the secrets. It does
    /// not migrate: see [`migrate`](Self::migrate) and [`check_version`](Self::check_version).
    ///
    /// # Errors
    /// `Incompatible` if the file cannot be opened for writing, `Corrupt` if it is damaged or not
    /// an SQLite database, `Unavailable` if another process has locked it.
    pub async fn open(settings: &SqliteSettings, cipher: &SecretCipher) -> Result<Self> {
        let failed = |error: SqlError| error.of("open");
        make_file(&settings.path).map_err(failed)?;
        let options = writing(settings);
        let connection = first_connection(&options, &settings.path).await.map_err(failed)?;
        let readers = Readers::new(reading(settings), settings.read_connections, TIMEOUT);
        let readers = Arc::new(readers);
        let tasks = Tasks::new();
        let writer = SqliteWriter::start(&tasks, options.clone(), connection);
        let no_thread =
            |error: std::io::Error| SqlError::new(StoreErrorKind::Unavailable, error.to_string());
        let writer = writer.map_err(no_thread).map_err(failed)?;
        let path = settings.path.clone();
        let locked = AtomicBool::new(false);
        let connections = SqliteConnections { writer, readers };
        let counts = JobCounts(Arc::new(connections.clone()));
        let shared = AdapterShared::new(cipher, Months::new(tasks.clone(), Arc::new(counts)));
        Ok(Self { path, options, locked, connections, tasks, shared })
    }
}

/// The options of all connections.
fn common(settings: &SqliteSettings) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(&settings.path)
        .busy_timeout(TIMEOUT)
        // The statements keep references valid. Another check would cost one lookup for each row.
        .foreign_keys(false)
        .pragma("temp_store", "MEMORY")
        .disable_statement_logging()
}

fn writing(settings: &SqliteSettings) -> SqliteConnectOptions {
    let options = common(settings)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .pragma("cache_size", "-32000")
        .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        .pragma("journal_size_limit", LOG_BYTES);
    match settings.max_bytes {
        Some(bytes) => options.pragma("max_page_count", (bytes / PAGE_BYTES).max(1).to_string()),
        None => options,
    }
}

pub(in crate::store::sqlite) fn reading(settings: &SqliteSettings) -> SqliteConnectOptions {
    common(settings).pragma("cache_size", "-4000").pragma("query_only", "ON")
}

/// Creates the file, readable only by its owner, because it holds secrets. SQLite gives the same
/// permissions to the files beside it.
fn make_file(path: &Path) -> SqlResult<()> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop).map_err(|error| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let message = match folder {
            Some(folder) if !folder.is_dir() => {
                format!("there is no folder {}: create it first", folder.display())
            }
            _ => format!("cannot write to {}: {error}", path.display()),
        };
        SqlError::new(StoreErrorKind::Incompatible, message)
    })
}

/// Connects and reads the schema, so that a file that is not a database is rejected now.
async fn first_connection(
    options: &SqliteConnectOptions,
    path: &Path,
) -> SqlResult<SqliteConnection> {
    let connect = async {
        let mut connection = options.connect().await?;
        sqlx::query("SELECT count(*) FROM sqlite_schema").execute(&mut connection).await?;
        Ok::<_, sqlx::Error>(connection)
    };
    connect.await.map_err(|error| {
        let error = SqlError::from(error);
        SqlError::new(error.kind, format!("{}: {}", path.display(), error.message))
    })
}
