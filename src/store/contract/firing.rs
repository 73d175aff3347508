//! Firing: the operations of a shard's leader. Its batches span all accounts.

use std::collections::{HashMap, HashSet};

use crate::domain::job::Trigger;
use crate::domain::schedule::{CatchUpPolicy, OverlapPolicy, SkipReason};
use crate::domain::shard::{Epoch, ShardId};
use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp, VersionId};
use crate::runtime::measured;
use crate::store::{ClaimRequest, ClaimedJobs, Result, StoreError, StoreErrorKind, TickRange};

/// An entry of a due index: a schedule and its next tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DueEntry {
    /// The next tick.
    pub tick: Timestamp,
    /// The schedule.
    pub schedule: ScheduleId,
    /// The account that owns the schedule.
    pub account: AccountId,
}

/// The condition of a leader's writes (LEAD-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The shard.
    pub shard: ShardId,
    /// The epoch that the leader raised when it took over the shard.
    pub epoch: Epoch,
}

/// An enabled schedule with a next tick, with all that the leader needs to decide how it fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The schedule.
    pub schedule: ScheduleId,
    /// Its shard.
    pub shard: ShardId,
    /// The account that owns it.
    pub account: AccountId,
    /// The host to which its requests go.
    pub host: HostKey,
    /// The name of the account's plan. Absent: the unlimited one.
    pub plan: Option<String>,
    /// Ticks up to this time do not fire, because the account is or was suspended.
    pub suspended_until: Option<Timestamp>,
    /// The shard's counter of changes of accounts, as it was read: how often any account was
    /// suspended, resumed or deleted, or got another plan.
    pub suspensions: i64,
    /// The current version.
    pub version: VersionId,
    /// The stored next tick.
    pub tick: Timestamp,
    /// The cron expression of the version.
    pub cron_expression: String,
    /// The timezone of the version.
    pub timezone: String,
    /// The overlap policy of the schedule.
    pub overlap_policy: OverlapPolicy,
    /// The catch-up policy of the schedule, if the call asked for it.
    pub catch_up_policy: Option<CatchUpPolicy>,
}

/// A job to make of a tick. Its id is derived from the schedule and the tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickJob {
    /// The job's id, which contains the tick.
    pub id: JobId,
    /// The trigger: `schedule` or `catch_up`.
    pub trigger: Trigger,
}

/// The decision about the due ticks of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    /// The schedule.
    pub schedule: ScheduleId,
    /// Its shard.
    pub shard: ShardId,
    /// The version that was read. If the store has another one, the firing is stale.
    pub version: VersionId,
    /// The next tick that was read. If the store has another one, the firing is stale.
    pub tick: Timestamp,
    /// The shard's counter of changes of accounts, as it was read. If the schedule's account was
    /// changed since, the schedule is passed over and must be read again. After more than
    /// [`CHANGES_KEPT`] changes since, this applies to every account.
    pub suspensions: i64,
    /// The overlap policy that was read. The stored one decides. If the policy that was read is
    /// `allow`, a store may use a cheaper statement, which treats another stored policy as stale.
    pub overlap_policy: OverlapPolicy,
    /// The new next tick. Absent: the expression has no more ticks.
    pub next_tick: Option<Timestamp>,
    /// The jobs to make, oldest first. None of them is for a tick after `now`. A job that the
    /// overlap policy forbids becomes a skip `overlap` instead.
    pub jobs: Vec<TickJob>,
    /// The ticks that become no jobs, with the reason.
    pub skips: Vec<(TickRange, SkipReason)>,
}

impl Firing {
    /// Returns `true` if the firing makes only jobs, and all of them can start at once according to
    /// the policy that was read.
    pub fn is_plain(&self) -> bool {
        self.overlap_policy == OverlapPolicy::Allow && self.skips.is_empty()
    }

    /// The last tick that becomes a job or a skip.
    pub(in crate::store) fn last_tick(&self) -> Option<Timestamp> {
        let jobs = self.jobs.iter().map(|job| job.id.timestamp());
        jobs.chain(self.skips.iter().map(|(range, _)| range.last)).max()
    }
}

/// The number of changed accounts that each shard remembers.
pub const CHANGES_KEPT: u8 = 32;

/// The result of firing a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// The tickets of the jobs that may start, for the queue. Jobs that an earlier call of the same
    /// firing made are not included.
    pub tickets: Vec<Ticket>,
    /// The jobs that were made and wait for another job of their schedule. Jobs of an earlier call
    /// are not included.
    pub held: Vec<JobId>,
    /// The number of jobs that became skips `overlap` instead.
    pub overlapped: u64,
    /// The schedules that were advanced, with their next ticks for the due index.
    pub advanced: Vec<(ScheduleId, Option<Timestamp>)>,
    /// The schedules that have changed since they were read.
    pub stale: Vec<ScheduleId>,
    /// The schedules that are still due and were passed over, because their row or their shard's
    /// row is locked or cannot be read, or because their account was changed since they were read.
    /// Read and fire them again after a pause.
    pub busy: Vec<ScheduleId>,
    /// The shards that have a newer leader. Nothing was changed in them, and their schedules are in
    /// none of the other lists.
    pub fenced: Vec<ShardId>,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Firing: the operations of a shard's leader.
    pub trait FiringStore: Send + Sync {
        /// Returns the next ticks of a shard's schedules after `after`, in the order of the
        /// schedules' ids. It returns at most `limit`, and fewer only at the end. Due indexes are
        /// built from this.
        async fn next_ticks(
            &self,
            shard: ShardId,
            after: Option<ScheduleId>,
            limit: u32,
        ) -> Result<Vec<DueEntry>>;

        /// Returns these schedules of these shards with all that is needed to fire them. Schedules
        /// that do not exist, are disabled, have no next tick or cannot be read are left out. The
        /// catch-up policy is read only if the tick is before `late_before`, because it costs
        /// another look-up and rarely matters.
        async fn candidates(
            &self,
            ids: &[(ShardId, ScheduleId)],
            late_before: Timestamp,
        ) -> Result<Vec<Candidate>>;

        /// Returns the number of jobs of each schedule that wait for their first attempt, counted
        /// up to `most`. Schedules without such jobs may be left out.
        async fn unstarted(
            &self,
            schedules: &[ScheduleId],
            most: u32,
        ) -> Result<HashMap<ScheduleId, u32>>;

        /// Fires a batch in one transaction. For each firing whose schedule is enabled, still has
        /// the version and the tick that were read, and is due at `now`, the next tick moves
        /// forward (TICK-3), and jobs and skips are made (TICK-2). `account` and `host` of the
        /// tickets come from the store.
        ///
        /// Locked rows of schedules and shards are passed over without waiting, so that the other
        /// schedules fire on time.
        ///
        /// The jobs may start from `now` on. The batch fails with kind `Rejected` if the next tick
        /// of a firing would not move forward, if a job would be made before its tick, or if a
        /// shard has no fence.
        ///
        /// Overlap: with `skip`, a job starts only if no other is active, and becomes the active
        /// one. With `queue_one`, one more job is held, which means that it is stored as PENDING
        /// without a start time, and starts when a commit or a cancellation ends the active one.
        /// Consecutive skips with the same reason extend one range.
        async fn fire(&self, fences: &[Fence], now: Timestamp, firings: &[Firing]) -> Result<Fired>;

        /// Fires a batch as [`fire`](Self::fire) does, at the time of the claim, and claims in the
        /// same transaction the jobs that may start. They are RUNNING from the beginning and have
        /// no tickets. For jobs whose overlap policy keeps them in order, a store may return
        /// tickets instead, and leave the claim to the executor that takes them.
        ///
        /// If the response is lost, [`recall`](crate::store::ClaimStore::recall) returns what was
        /// claimed.
        async fn fire_and_claim(
            &self,
            fences: &[Fence],
            claim: &ClaimRequest,
            firings: &[Firing],
        ) -> Result<(Fired, ClaimedJobs)>;
    }
}

/// Rejects a batch that would break TICK-3 or LEAD-1 regardless of what the store contains.
pub(in crate::store) fn check(fences: &[Fence], now: Timestamp, firings: &[Firing]) -> Result<()> {
    let shards: HashSet<ShardId> = fences.iter().map(|fence| fence.shard).collect();
    for firing in firings {
        let schedule = firing.schedule;
        let refused = |why: &str| {
            let why = format!("firing of {schedule}: {why}");
            Err(StoreError::new("fire", StoreErrorKind::Rejected, why))
        };
        if firing.next_tick.is_some_and(|next| next <= firing.tick) {
            return refused("the next tick would not move forward");
        }
        if firing.jobs.iter().any(|job| job.id.timestamp() > now) {
            return refused("a job would start before its tick");
        }
        if !shards.contains(&firing.shard) {
            return refused("its shard is not the caller's");
        }
    }
    Ok(())
}
