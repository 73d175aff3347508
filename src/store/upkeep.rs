//! Upkeep: health and the end of history.

use async_trait::async_trait;

use super::Result;
use crate::domain::Timestamp;
use crate::domain::shard::{Epoch, ShardId};

/// What a round of pruning has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Finished jobs, with their attempts.
    pub jobs: u64,
    /// Skips.
    pub skips: u64,
    /// Versions that no schedule and no job uses.
    pub versions: u64,
}

/// How a shard stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardRecord {
    /// Which.
    pub shard: ShardId,
    /// Its newest leader; absent if nobody has ever led it.
    pub led: Option<LedBy>,
    /// Its oldest tick that is due and has not fired.
    pub due_since: Option<Timestamp>,
    /// Since when its oldest job waits that could have started.
    pub waiting_since: Option<Timestamp>,
}

/// A leader, as it entered itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedBy {
    /// Its name.
    pub replica: String,
    /// The epoch that it raised.
    pub epoch: Epoch,
    /// When it did.
    pub at: Timestamp,
}

/// Upkeep: health and the end of history.
#[async_trait]
pub trait UpkeepStore: Send + Sync {
    /// Whether the store answers and can be written to, without writing.
    async fn ping(&self) -> Result<()>;

    /// The present instant by the store's own clock, which replicas discipline theirs by. `None` if
    /// the store has no clock but the process's.
    async fn time(&self) -> Result<Option<Timestamp>>;

    /// Makes room for the jobs of the days around `now`: a store that divides them by time does it
    /// ahead of time, and back to the oldest tick that may still be fired. To be called at the
    /// start, and then at least once a day. A job that nevertheless finds no room gets it.
    async fn prepare(&self, now: Timestamp) -> Result<()>;

    /// Removes, of what ended before `before`, at most `limit` rows of each kind. Unfinished jobs
    /// stay. A store that divides jobs by time removes old days whole, up to a day later, and then
    /// more than `limit` jobs.
    async fn prune(&self, before: Timestamp, limit: u32) -> Result<Upkeep>;

    /// How all shards stand at `now`, in their order; none before they are set up. Looks through
    /// all schedules: for people, not for loops.
    async fn shard_records(&self, now: Timestamp) -> Result<Vec<ShardRecord>>;

    /// How many jobs are unfinished, counted to `cap`.
    async fn unfinished(&self, cap: u32) -> Result<u64>;
}
