//! Upkeep: health and the end of history.

use async_trait::async_trait;

use super::Result;
use crate::domain::Timestamp;

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

/// Upkeep: health and the end of history.
#[async_trait]
pub trait UpkeepStore: Send + Sync {
    /// Whether the store answers and can be written to, without writing.
    async fn ping(&self) -> Result<()>;

    /// Removes, of what ended before `before`, at most `limit` rows of each kind. Unfinished jobs
    /// stay.
    async fn prune(&self, before: Timestamp, limit: u32) -> Result<Upkeep>;

    /// How many jobs are unfinished, counted to `cap`.
    async fn unfinished(&self, cap: u32) -> Result<u64>;
}
