//! Upkeep: health and the end of history.

use crate::domain::shard::{Epoch, ShardId};
use crate::domain::{AccountId, Timestamp};
use crate::runtime::measured;
use crate::store::Result;

/// Plan, instant, number of rows.
pub(in crate::store) const SHORT_HISTORIES: &str =
    "SELECT id FROM accounts WHERE plan = $1 AND pruned_at < $2 ORDER BY pruned_at, id LIMIT $3";
/// Account, instant.
pub(in crate::store) const PRUNED: &str = "UPDATE accounts SET pruned_at = $2 WHERE id = $1";

/// A version's jobs are made before it is retired, give or take the time that a call is under way;
/// this many milliseconds are more than enough for that.
pub(in crate::store) const RETIRING_MS: i64 = 3_600_000;

/// What a round of pruning has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upkeep {
    /// Whole days of finished jobs, with their attempts, where a store keeps them by the day.
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
pub struct Waiting {
    /// How many there are, counted to a cap.
    pub jobs: u64,
    /// Since when the oldest could have started.
    pub since: Option<Timestamp>,
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

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Upkeep: health and the end of history.
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

        /// Accounts of a plan whose history was last pruned by itself before `before`; the longest ago
        /// first, at most `limit`.
        async fn short_histories(
            &self,
            plan: &str,
            before: Timestamp,
            limit: u32,
        ) -> Result<Vec<AccountId>>;

        /// The same as [`prune`](Self::prune) for one account, whose history is shorter than that of others,
        /// row by row: jobs and skips that ended before `before`, entries of the audit log made before.
        /// Returns how many there were of those of which there were most; if fewer than `limit`, it is
        /// noted that this was done at `now`. Of several callers at once one removes.
        async fn prune_account(
            &self,
            account: AccountId,
            before: Timestamp,
            now: Timestamp,
            limit: u32,
        ) -> Result<u64>;

        /// Removes keys that have expired or were revoked before `before`, at most `limit`. Returns how
        /// many.
        async fn prune_keys(&self, before: Timestamp, limit: u32) -> Result<u64>;

        /// How all shards stand at `now`, in their order; none before they are set up. Looks through
        /// all schedules: for people, not for loops.
        async fn shard_records(&self, now: Timestamp) -> Result<Vec<ShardRecord>>;

        /// How many jobs are unfinished, counted to `cap`.
        async fn unfinished(&self, cap: u32) -> Result<u64>;

        /// The jobs that could have started by `now` and wait for an executor, counted to `cap`.
        async fn waiting(&self, now: Timestamp, cap: u32) -> Result<Waiting>;
    }
}

/// Removes old skips of an account; here and in what follows, `passing` says what to do with rows
/// that somebody holds. Account, instant, number of rows.
pub(in crate::store) fn prune_account_skips(passing: &str) -> String {
    format!(
        "DELETE FROM skips WHERE account_id = $1 AND id IN
             (SELECT id FROM skips WHERE account_id = $1 AND first_tick < $2 AND last_tick < $2
              ORDER BY first_tick, id LIMIT $3 {passing})"
    )
}

/// Removes old entries of an account's log. Account, lowest id that stays, number of rows.
pub(in crate::store) fn prune_account_log(passing: &str) -> String {
    format!(
        "DELETE FROM audit_log WHERE account_id = $1 AND id IN
             (SELECT id FROM audit_log WHERE account_id = $1 AND id < $2 ORDER BY id LIMIT $3
              {passing})"
    )
}
