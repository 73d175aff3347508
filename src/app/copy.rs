//! Copies a SQLite store into the PostgreSQL store of a cluster.
//!
//! The copy can be repeated until a replica starts to use the target. Meanwhile, the lock on the
//! source keeps other processes from serving it, and the target refuses to be used until the copy
//! is complete. At most two pages of rows are in memory. Secrets are copied in their encrypted
//! form, so both stores need the same keys.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::OpenStore;
use super::error::StartError;
use crate::config::{Config, StoreChoice};
use crate::runtime::{Clock, Random};
use crate::store::postgres::PostgresStore;
use crate::store::sqlite::SqliteStore;
use crate::store::{NextTicks, RowKey, SecretStore, StoreError, Table};

/// The number of attempts to begin with a target that is in use or does not answer.
const TRIES: u32 = 20;
/// The delay between these attempts.
const BETWEEN_TRIES: Duration = Duration::from_millis(250);

/// The reason why a store could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The source is not SQLite, or the target is not PostgreSQL.
    #[error("a copy goes from sqlite:PATH (--from) to postgres://… (--to)")]
    Kinds,
    /// The file of the source does not exist.
    #[error("there is no file {0} (--from)")]
    NoSource(PathBuf),
    /// The source cannot be used.
    #[error("{0} (--from)")]
    Source(StoreError),
    /// Another process serves the source.
    #[error("the source must not be in use while it is copied: {0} (--from)")]
    SourceInUse(StoreError),
    /// The target cannot be used.
    #[error("{0} (--to)")]
    Target(StoreError),
    /// One of the stores cannot be opened.
    #[error(transparent)]
    Open(#[from] StartError),
}

/// The progress of a copy.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The table that is being copied.
    pub table: Table,
    /// The number of rows copied so far, of all tables.
    pub done: u64,
    /// The number of rows to copy, of all tables.
    pub total: u64,
}

/// The result of copying a table.
#[derive(Clone, Copy, Debug)]
pub struct CopiedTable {
    /// The table.
    pub table: Table,
    /// The number of rows in the source.
    pub source: u64,
    /// The number of rows in the target.
    pub target: u64,
    /// The number of rows that were missing in the target, or different.
    pub written: u64,
}

/// The result of a copy.
#[derive(Clone, Debug)]
pub struct CopyResult {
    /// The tables.
    pub tables: Vec<CopiedTable>,
    /// The next ticks of the schedules in the source.
    pub source_ticks: NextTicks,
    /// The next ticks of the schedules in the target.
    pub target_ticks: NextTicks,
}

/// Copies the store of `from` into the store of `to`, and counts the rows of both. `tell` is called
/// before and after each page.
///
/// # Errors
/// If one of the stores cannot be used for this. The rows that were copied stay in the target, and
/// the next copy continues with them.
pub async fn copy(
    from: &Config,
    to: &Config,
    clock: &Clock,
    random: &Random,
    mut tell: impl FnMut(Progress),
) -> Result<CopyResult, CopyError> {
    let (source, target) = open(from, to, random).await?;
    let _lock = source.lock().map_err(CopyError::SourceInUse)?;
    source.check_version().await.map_err(CopyError::Source)?;
    let proposed = u32::try_from(random.bits() >> 96).expect("32 bits are left");
    let installation = crate::store::LeadershipStore::installation(&*source, proposed).await;
    begin(to, &target, clock, installation.map_err(CopyError::Source)?).await?;
    let keys = source.key_proofs().await.map_err(CopyError::Source)?;
    target.use_keys(&keys).await.map_err(CopyError::Target)?;

    let mut counts = Vec::with_capacity(Table::ALL.len());
    for table in Table::ALL {
        counts.push((table, source.row_count(table).await.map_err(CopyError::Source)?));
    }
    let total = counts.iter().map(|(_, rows)| rows).sum();
    let mut progress = Progress { table: Table::Accounts, done: 0, total };
    let mut written = Vec::with_capacity(counts.len());
    for table in Table::ALL {
        progress.table = table;
        written.push(copy_table(&source, &target, to.shards, &mut progress, &mut tell).await?);
    }
    let source_ticks = source.next_ticks_in_short().await.map_err(CopyError::Source)?;
    let arrived = target.end_copy(&counts, source_ticks).await;
    let (arrived, target_ticks) = arrived.map_err(CopyError::Target)?;
    source.close().await;
    target.close().await;
    let tables = counts.into_iter().zip(arrived).zip(written);
    let table =
        |(((table, source), target), written)| CopiedTable { table, source, target, written };
    Ok(CopyResult { tables: tables.map(table).collect(), source_ticks, target_ticks })
}

async fn open(
    from: &Config,
    to: &Config,
    random: &Random,
) -> Result<(Arc<SqliteStore>, Arc<PostgresStore>), CopyError> {
    let (StoreChoice::Sqlite(file), StoreChoice::Postgres(_)) = (&from.store, &to.store) else {
        return Err(CopyError::Kinds);
    };
    if !file.path.is_file() {
        return Err(CopyError::NoSource(file.path.clone()));
    }
    match (OpenStore::open(from, random).await?, OpenStore::open(to, random).await?) {
        (OpenStore::Sqlite(source), OpenStore::Postgres(target)) => Ok((source, target)),
        _ => Err(CopyError::Kinds),
    }
}

/// Begins the copy in the target. Retries for a few seconds, because the connections of an
/// interrupted copy may still be open.
async fn begin(
    to: &Config,
    target: &Arc<PostgresStore>,
    clock: &Clock,
    installation: u32,
) -> Result<(), CopyError> {
    let mut tries = 1;
    loop {
        let begun = async {
            // The keys are checked later: `begin_copy` would take a second connection of this
            // process for another process.
            match to.migrate {
                true => target.migrate().await?,
                false => target.check_version().await?,
            }
            target.begin_copy(installation, to.shards).await
        };
        match begun.await {
            Err(error) if error.is_transient() && tries < TRIES => {
                tries += 1;
                clock.sleep(BETWEEN_TRIES).await;
            }
            begun => return begun.map_err(CopyError::Target),
        }
    }
}

/// Copies a table and returns the number of written rows. The next page is read while the current
/// page is written.
async fn copy_table(
    source: &SqliteStore,
    target: &PostgresStore,
    shards: u16,
    progress: &mut Progress,
    tell: &mut impl FnMut(Progress),
) -> Result<u64, CopyError> {
    let table = progress.table;
    let mut written = 0;
    let mut page = source.page(table, RowKey::LOWEST).await.map_err(CopyError::Source)?;
    loop {
        tell(*progress);
        let read = async {
            match page.next() {
                Some(after) => source.page(table, after).await.map(Some),
                None => Ok(None),
            }
        };
        let (put, next) = tokio::join!(target.put_page(table, &page, shards), read);
        written += put.map_err(CopyError::Target)?;
        progress.done += page.len() as u64;
        tell(*progress);
        match next.map_err(CopyError::Source)? {
            Some(next) => page = next,
            None => return Ok(written),
        }
    }
}
