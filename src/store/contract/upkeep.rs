//! Upkeep of the store: health checks, and the removal of old history.

use crate::domain::shard::{Epoch, ShardId};
use crate::domain::{AccountId, Timestamp};
use crate::runtime::measured;
use crate::store::Result;

/// The rows that one pass of pruning has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrunedRows {
    /// Whole days of finished jobs, with their attempts, if the store partitions them by day.
    pub days: u64,
    /// Other finished jobs, with their attempts.
    pub jobs: u64,
    /// Skips.
    pub skips: u64,
    /// Versions that no schedule and no job uses.
    pub versions: u64,
}

/// The jobs that wait for an executor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingJobs {
    /// The number of jobs, counted up to a maximum.
    pub jobs: u64,
    /// The time since which the oldest of them could have started.
    pub since: Option<Timestamp>,
}

/// The state of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardRecord {
    /// The shard.
    pub shard: ShardId,
    /// Its newest leader; absent if it never had one.
    pub leader: Option<CurrentLeader>,
    /// The time of its oldest tick that is due and has not fired.
    pub due_since: Option<Timestamp>,
    /// The time since which its oldest waiting job could have started.
    pub waiting_since: Option<Timestamp>,
}

/// A leader of a shard, as it recorded itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentLeader {
    /// The name of the replica.
    pub replica: String,
    /// The epoch of the leader, to which it raised the shard's.
    pub epoch: Epoch,
    /// The time at which it became the leader.
    pub at: Timestamp,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Health checks, and the removal of old history.
    pub trait UpkeepStore: Send + Sync {
        /// Returns an error unless the store answers and can be written to. Writes nothing.
        async fn ping(&self) -> Result<()>;

        /// Returns the present time of the store's own clock, to which replicas adjust theirs;
        /// `None` if the store has only the clock of this process.
        async fn time(&self) -> Result<Option<Timestamp>>;

        /// Creates the partitions for the jobs of the days around `now`, if the store partitions
        /// jobs by time: some days ahead, and back to the oldest tick that may still fire. Call it
        /// at startup, and then at least once a day. If the partition of a job is missing
        /// nevertheless, it is created when the job is stored.
        async fn prepare(&self, now: Timestamp) -> Result<()>;

        /// Deletes history that ended before `before`, at most `limit` rows of each kind.
        /// Unfinished jobs stay. A store that partitions jobs by time drops old days as a whole, up
        /// to a day later; then `limit` does not apply to their jobs.
        async fn prune(&self, before: Timestamp, limit: u32) -> Result<PrunedRows>;

        /// Returns at most `limit` accounts of a plan whose history
        /// [`prune_account`](Self::prune_account) last completed before `before`, the longest ago
        /// first.
        async fn short_histories(
            &self,
            plan: &str,
            before: Timestamp,
            limit: u32,
        ) -> Result<Vec<AccountId>>;

        /// Deletes the old history of one account whose plan keeps less history than others, row by
        /// row: jobs and skips that ended before `before`, and entries of the audit log that were
        /// made before it, at most `limit` of each. Returns the largest of the three numbers. If it
        /// is below `limit`, the pruning is complete and is recorded at `now`. Of concurrent calls
        /// only one deletes rows.
        async fn prune_account(
            &self,
            account: AccountId,
            before: Timestamp,
            now: Timestamp,
            limit: u32,
        ) -> Result<u64>;

        /// Deletes at most `limit` keys that expired or were revoked before `before`. Returns their
        /// number.
        async fn prune_keys(&self, before: Timestamp, limit: u32) -> Result<u64>;

        /// Returns the state of all shards at `now`, in order; none before the shards are set up.
        /// Reads through all schedules, so it is for operators, not for loops.
        async fn shard_records(&self, now: Timestamp) -> Result<Vec<ShardRecord>>;

        /// Returns the number of unfinished jobs, counted up to `cap`.
        async fn unfinished(&self, cap: u32) -> Result<u64>;

        /// Returns the jobs that could have started by `now` and wait for an executor, counted up
        /// to `cap`.
        async fn waiting(&self, now: Timestamp, cap: u32) -> Result<WaitingJobs>;
    }
}
