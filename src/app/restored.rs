//! The store after a backup of it was restored, before the first start on it.

use super::{OpenStore, StartError};
use crate::config::Config;
use crate::domain::audit::Author;
use crate::domain::{AuditId, Timestamp};
use crate::runtime::{Clock, Random};
use crate::scheduler::{PassOverError, PassedOver, pass_over_due};
use crate::store::{Act, FiringStore, StoreError};

/// To how many unfinished jobs are counted.
pub const UNFINISHED_COUNTED: u32 = 100_000;

/// What was found in a restored store, and moved.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    /// The instant up to which ticks were passed over, by the store's time.
    pub now: Timestamp,
    /// What was passed over in all shards.
    pub passed: PassedOver,
    /// Jobs that were unfinished in the backup, counted to [`UNFINISHED_COUNTED`].
    pub unfinished: u64,
}

/// Why a restored store was not made ready for its first start.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] StartError),
    /// The store failed.
    #[error("{0} (store.url)")]
    Store(#[from] StoreError),
    /// Nobody has ever served the store.
    #[error(
        "nothing was ever started on it, so it is no restored backup: look at store.url and data_dir"
    )]
    Unused,
    /// Not all was passed over.
    #[error(transparent)]
    PassOver(#[from] PassOverError),
}

/// Passes over what has become due since the backup was made, which is entered in the audit log of the
/// installation by `author`. Nobody may serve the store meanwhile.
///
/// # Errors
/// If somebody serves the store, or it cannot be used. What was passed over until then stays so.
pub async fn restored(
    config: &Config,
    author: Author,
    clock: &Clock,
    random: &Random,
) -> Result<Restored, RestoreError> {
    let open = OpenStore::open(config, random).await?;
    let restored = pass_over(&open, config, clock, (author, random)).await;
    open.close().await;
    restored
}

async fn pass_over(
    open: &OpenStore,
    config: &Config,
    clock: &Clock,
    (author, random): (Author, &Random),
) -> Result<Restored, RestoreError> {
    let _lock = open.lock()?;
    if let OpenStore::Postgres(store) = open {
        store.check_unused().await?;
    }
    open.update(config).await?;
    open.set_clock(clock).await?;
    let (store, now) = (open.shared(), clock.now());
    let shards = store.shard_records(now).await?;
    if shards.is_empty() {
        return Err(RestoreError::Unused);
    }
    let entry = AuditId::new(now, random.bits());
    store.enter_restoration(&Act { now, author, entry }).await?;
    let mut passed = PassedOver::default();
    for record in shards {
        let store: &dyn FiringStore = &*store;
        passed.add(pass_over_due(store, record.shard, now).await?);
    }
    let unfinished = store.unfinished(UNFINISHED_COUNTED).await?;
    Ok(Restored { now, passed, unfinished })
}
