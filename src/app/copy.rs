//! Copying the store of one machine into that of a cluster.
//!
//! The copy can be repeated until the cluster takes it into use. While it goes on, nobody serves the
//! source, which its lock makes sure of, and nobody uses the target, which the target itself does.
//! At most two pages of rows are in memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::OpenStore;
use super::error::StartError;
use crate::config::{Config, Store};
use crate::runtime::{Clock, Random};
use crate::store::postgres::PostgresStore;
use crate::store::sqlite::SqliteStore;
use crate::store::{NextTicks, RowKey, StoreError, Table};

/// How often a target that is in use or away is asked again, and how long in between.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(250);

/// Why a store could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The copy goes the other way, or to a store of the same kind.
    #[error("a copy goes from sqlite:PATH (--from) to postgres://… (--to)")]
    Kinds,
    /// There is nothing to copy.
    #[error("there is no file {0} (--from)")]
    NoSource(PathBuf),
    /// The source cannot be used.
    #[error("{0} (--from)")]
    Source(StoreError),
    /// Somebody serves the source.
    #[error("the source must not be in use while it is copied: {0} (--from)")]
    SourceInUse(StoreError),
    /// The target cannot be used.
    #[error("{0} (--to)")]
    Target(StoreError),
    /// One of them cannot even be opened.
    #[error(transparent)]
    Open(#[from] StartError),
}

/// How far a copy is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// What is copied now.
    pub table: Table,
    /// Rows that were copied, of all tables.
    pub done: u64,
    /// Rows there are.
    pub total: u64,
}

/// A table that was copied.
#[derive(Clone, Copy, Debug)]
pub struct CopiedTable {
    /// Which.
    pub table: Table,
    /// Rows of the source.
    pub source: u64,
    /// Rows of the target.
    pub target: u64,
    /// Rows that were not in the target as they are now.
    pub written: u64,
}

/// What was copied.
#[derive(Clone, Debug)]
pub struct Copied {
    /// The tables.
    pub tables: Vec<CopiedTable>,
    /// When the schedules of the source are due next.
    pub source_ticks: NextTicks,
    /// When those of the target are.
    pub target_ticks: NextTicks,
}

/// Copies the store of `from` into that of `to`, and counts what is in both. `tell` is called
/// before each page.
///
/// # Errors
/// If one of the stores cannot be used for this. What was copied until then stays; another copy
/// goes on with it.
pub async fn copy(
    from: &Config,
    to: &Config,
    clock: &Clock,
    random: &Random,
    mut tell: impl FnMut(Progress),
) -> Result<Copied, CopyError> {
    let (source, target) = open(from, to).await?;
    let _lock = source.lock().map_err(CopyError::SourceInUse)?;
    source.check_version().await.map_err(CopyError::Source)?;
    let proposed = u32::try_from(random.bits() >> 96).expect("32 bits are left");
    let installation = crate::store::FiringStore::installation(&*source, proposed).await;
    begin(to, &target, clock, installation.map_err(CopyError::Source)?).await?;

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
    Ok(Copied { tables: tables.map(table).collect(), source_ticks, target_ticks })
}

async fn open(
    from: &Config,
    to: &Config,
) -> Result<(Arc<SqliteStore>, Arc<PostgresStore>), CopyError> {
    let (Store::Sqlite(file), Store::Postgres(_)) = (&from.store, &to.store) else {
        return Err(CopyError::Kinds);
    };
    if !file.path.is_file() {
        return Err(CopyError::NoSource(file.path.clone()));
    }
    match (OpenStore::open(from).await?, OpenStore::open(to).await?) {
        (OpenStore::Sqlite(source), OpenStore::Postgres(target)) => Ok((source, target)),
        _ => Err(CopyError::Kinds),
    }
}

/// The connections of a copy that was interrupted may be there for a moment.
async fn begin(
    to: &Config,
    target: &Arc<PostgresStore>,
    clock: &Clock,
    installation: u32,
) -> Result<(), CopyError> {
    let mut tries = 1;
    loop {
        let begun = async {
            OpenStore::Postgres(target.clone()).update(to).await?;
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

/// Copies a table; the next page is read while one is written. Returns how many rows were written.
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
