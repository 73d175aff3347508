//! The shards that replicas take over by the store, because their leaders have died while etcd is
//! away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual::domain::Timestamp;
use punctual::domain::shard::{Epoch, ShardId};
use punctual::store::{Result, SharedStore};

/// A shard that was taken over.
struct Takeover {
    shard: ShardId,
    replica: String,
    /// The epoch of the leader that the replica took for dead.
    seen: Epoch,
    /// The epoch of the replica.
    raised: Epoch,
}

/// All of them.
#[derive(Default)]
pub struct Takeovers {
    taken: Mutex<Vec<Takeover>>,
    /// `true` for a wrong variant, which does not compare the epoch.
    ignores_epochs: AtomicBool,
}

impl Takeovers {
    /// Takes a shard over and records that.
    pub async fn replace(
        &self,
        store: &SharedStore,
        (shard, seen): (ShardId, Epoch),
        replica: &str,
        now: Timestamp,
    ) -> Result<Option<Epoch>> {
        let raised = match self.ignores_epochs.load(Ordering::Relaxed) {
            true => Some(store.raise_epoch(shard, replica, now).await?),
            false => store.replace_leader(shard, seen, replica, now).await?,
        };
        let replica = replica.to_owned();
        self.taken().extend(raised.map(|raised| Takeover { shard, replica, seen, raised }));
        Ok(raised)
    }

    /// Makes replicas take shards over without comparing the epoch.
    pub fn ignore_epochs(&self) {
        self.ignores_epochs.store(true, Ordering::Relaxed);
    }

    /// Returns the number of shards that were taken over.
    pub fn count(&self) -> usize {
        self.taken().len()
    }

    /// LEAD-1: requires that replicas replaced only leaders that were found dead.
    pub fn judge(&self) -> Vec<String> {
        let taken = self.taken();
        let is_wrong = |one: &&Takeover| one.raised.0 != one.seen.0 + 1;
        let tell = |Takeover { shard, replica, seen, raised }: &Takeover| {
            let (seen, raised) = (seen.0, raised.0);
            format!("LEAD-1: {replica} took over shard {shard} from epoch {seen} by epoch {raised}")
        };
        taken.iter().filter(is_wrong).map(tell).collect()
    }

    fn taken(&self) -> MutexGuard<'_, Vec<Takeover>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
