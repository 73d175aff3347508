//! Prepares a store that was restored from a backup for the first start on it.
//!
//! Ticks that became due since the backup are passed over: they may have fired already.

use super::{OpenStore, StartError};
use crate::config::Config;
use crate::domain::audit::Author;
use crate::domain::{AuditId, Timestamp};
use crate::runtime::{Clock, Random};
use crate::scheduler::{PassOverError, PassedOver, pass_over_due};
use crate::store::{AuditContext, Store, StoreError};

/// The maximum number of unfinished jobs that are counted.
pub const UNFINISHED_COUNTED: u32 = 100_000;

/// The result of preparing a restored store.
#[derive(Clone, Copy, Debug)]
pub struct RestoreResult {
    /// The instant up to which ticks were passed over, by the store's time.
    pub now: Timestamp,
    /// The ticks that were passed over, in all shards.
    pub passed: PassedOver,
    /// The number of jobs that were unfinished in the backup, up to [`UNFINISHED_COUNTED`].
    pub unfinished: u64,
}

/// The reason why a restored store was not prepared for its first start.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] StartError),
    /// The store failed.
    #[error("{0} (store.url)")]
    Store(#[from] StoreError),
    /// No service has ever used the store.
    #[error(
        "no service has ever used this store, so it is not a restored backup: check store.url and \
         data_dir"
    )]
    Unused,
    /// Some ticks could not be passed over.
    #[error(transparent)]
    PassOver(#[from] PassOverError),
}

/// Passes over the ticks that became due since the backup was made. The audit log of the
/// installation records this as an act of `author`. No service may use the store meanwhile.
///
/// # Errors
/// If a service uses the store, or the store cannot be used. Ticks that were passed over stay so.
pub async fn restored(
    config: &Config,
    author: Author,
    clock: &Clock,
    random: &Random,
) -> Result<RestoreResult, RestoreError> {
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
) -> Result<RestoreResult, RestoreError> {
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
    store.enter_restoration(&AuditContext { now, author, entry }).await?;
    let mut passed = PassedOver::default();
    for record in shards {
        let store: &dyn Store = &*store;
        passed.add(pass_over_due(store, record.shard, now).await?);
    }
    let unfinished = store.unfinished(UNFINISHED_COUNTED).await?;
    Ok(RestoreResult { now, passed, unfinished })
}
