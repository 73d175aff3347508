//! Firing: what a shard's leader does. Batches over all accounts.

use std::collections::{HashMap, HashSet};

use super::{Claim, Claims, Result, StoreError, StoreErrorKind, TickRange};
use crate::domain::job::Trigger;
use crate::domain::schedule::{CatchUpPolicy, OverlapPolicy, SkipReason};
use crate::domain::shard::{Epoch, ShardId};
use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp, VersionId};
use crate::runtime::measured;

/// An entry of a due index: a schedule and its next tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DueEntry {
    /// When it is due.
    pub tick: Timestamp,
    /// What is due.
    pub schedule: ScheduleId,
    /// Whose it is.
    pub account: AccountId,
}

/// What a leader's writes are conditional on (LEAD-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The shard.
    pub shard: ShardId,
    /// The epoch that the leader raised when it took the shard.
    pub epoch: Epoch,
}

/// An enabled schedule with a next tick, as the leader needs it to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The schedule.
    pub schedule: ScheduleId,
    /// Its shard.
    pub shard: ShardId,
    /// Whose it is.
    pub account: AccountId,
    /// Where its requests go.
    pub host: HostKey,
    /// The name of the account's plan; absent if that is the unlimited one.
    pub plan: Option<String>,
    /// Ticks up to then do not fire: the account is or was suspended.
    pub suspended_until: Option<Timestamp>,
    /// How often any account had been suspended, resumed or deleted, or its plan changed, as far as
    /// the shard was told.
    pub suspensions: i64,
    /// Its current version.
    pub version: VersionId,
    /// Its stored next tick.
    pub tick: Timestamp,
    /// Of the version.
    pub cron_expression: String,
    /// Of the version.
    pub timezone: String,
    /// Of the schedule.
    pub overlap_policy: OverlapPolicy,
    /// Of the schedule, where it was asked for.
    pub catch_up_policy: Option<CatchUpPolicy>,
}

/// A job to be made of a tick. Its id follows from schedule and tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickJob {
    /// Its id, and in it the tick.
    pub id: JobId,
    /// `schedule` or `catch_up`.
    pub trigger: Trigger,
}

/// What shall become of a schedule's due ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    /// The schedule.
    pub schedule: ScheduleId,
    /// Its shard.
    pub shard: ShardId,
    /// The version that was read; another one in the store makes the firing stale.
    pub version: VersionId,
    /// The next tick that was read; another one in the store makes the firing stale.
    pub tick: Timestamp,
    /// How often an account had been suspended, resumed or deleted, or its plan changed, when it was
    /// read. Where that has happened to the schedule's account since, it is passed over, to be read
    /// anew; and if it has happened more than [`CHANGES_KEPT`] times, whoever it was.
    pub suspensions: i64,
    /// The overlap policy that was read. The stored one decides; a store may fire at less cost where
    /// the one that was read is `allow`, and take another one in the store for stale.
    pub overlap_policy: OverlapPolicy,
    /// The next tick from now on; absent if the expression has no more.
    pub next_tick: Option<Timestamp>,
    /// The jobs to be made, oldest first; none of them for a tick after `now`. Where the overlap
    /// policy forbids one, it becomes a skip `overlap` instead.
    pub jobs: Vec<TickJob>,
    /// Ticks that become no jobs, and why.
    pub skips: Vec<(TickRange, SkipReason)>,
}

impl Firing {
    /// Whether, by what was read, its jobs start at once, and nothing but they is to be made.
    pub fn is_plain(&self) -> bool {
        self.overlap_policy == OverlapPolicy::Allow && self.skips.is_empty()
    }

    /// The last tick that becomes a job or a skip.
    pub(in crate::store) fn last_tick(&self) -> Option<Timestamp> {
        let jobs = self.jobs.iter().map(|job| job.id.timestamp());
        jobs.chain(self.skips.iter().map(|(range, _)| range.last)).max()
    }
}

/// How many changes of accounts each shard keeps: which account was changed.
pub const CHANGES_KEPT: u8 = 32;

/// What firing a batch has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// Tickets of the jobs that may start, for the queue; jobs made by an earlier call of the same
    /// firing are not in it.
    pub tickets: Vec<Ticket>,
    /// The jobs that were made and wait for another one of their schedule; as with tickets, not those
    /// of an earlier call.
    pub held: Vec<JobId>,
    /// How many of the jobs were not made, but became skips `overlap`.
    pub overlapped: u64,
    /// The schedules that were advanced, and to where: what the due index shall say.
    pub advanced: Vec<(ScheduleId, Option<Timestamp>)>,
    /// The schedules that are no longer as they were read.
    pub stale: Vec<ScheduleId>,
    /// The schedules that are still due and were passed over: somebody else holds their rows or their
    /// shard's just now, these cannot be read, or their account has been changed since they were. To
    /// be read and fired after a rest.
    pub busy: Vec<ScheduleId>,
    /// The shards that have a newer leader: nothing was changed in them, and their schedules are in
    /// none of the others.
    pub fenced: Vec<ShardId>,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Firing: what a shard's leader does.
    pub trait FiringStore: Send + Sync {
        /// The number of shards, fixed at the first call with `wanted`. A store that was set up with
        /// another number answers with an error of kind `Incompatible` that names both.
        async fn set_up_shards(&self, wanted: u16) -> Result<u16>;

        /// The number that tells this store from all others: `proposed`, if it has none yet.
        async fn installation(&self, proposed: u32) -> Result<u32>;

        /// Raises the shard's epoch and returns it; writes with a lower one change nothing from now
        /// on.
        async fn raise_epoch(&self, shard: ShardId, replica: &str, now: Timestamp) -> Result<Epoch>;

        /// The next ticks of a shard's schedules, in the order of their ids, after `after`; at most
        /// `limit`, fewer only at the end. What a due index is built from.
        async fn next_ticks(
            &self,
            shard: ShardId,
            after: Option<ScheduleId>,
            limit: u32,
        ) -> Result<Vec<DueEntry>>;

        /// What is needed to fire these schedules of these shards; absent are those that do not exist, are
        /// disabled, have no next tick or cannot be read. The catch-up policy is asked for only where
        /// the tick is before `late_before`: it takes one more look-up, and hardly ever matters.
        async fn candidates(
            &self,
            ids: &[(ShardId, ScheduleId)],
            late_before: Timestamp,
        ) -> Result<Vec<Candidate>>;

        /// How many jobs of schedules have not begun, and have not been tried before: of each up to `most`.
        /// Schedules without any may be absent.
        async fn unstarted(
            &self,
            schedules: &[ScheduleId],
            most: u32,
        ) -> Result<HashMap<ScheduleId, u32>>;

        /// Fires a batch in one transaction. For each firing whose schedule is enabled and still has
        /// the version and the tick that were read, and whose tick is not after `now`: the next tick
        /// moves forward (TICK-3), jobs and skips are made (TICK-2). `account` and `host` of the
        /// tickets come from the store.
        ///
        /// Nobody who holds a schedule's row, or a shard's, is waited for, so that the others fire on
        /// time.
        ///
        /// The jobs may start from `now` on. A firing whose next tick would not move forward, that would
        /// make a job before its tick, or whose shard has no fence, fails the batch with kind
        /// `Rejected`.
        ///
        /// Overlap: for `skip`, a job starts only if none is active, and becomes the active one; for
        /// `queue_one` one more is held: stored PENDING, without a start. Commits and cancellations
        /// let it follow. Consecutive skips with the same reason extend one range.
        async fn fire(&self, fences: &[Fence], now: Timestamp, firings: &[Firing]) -> Result<Fired>;

        /// Fires a batch as [`fire`](Self::fire) does at the instant of the claim, and claims in the
        /// same transaction those of the jobs that may start: they are RUNNING from the beginning, and
        /// have no tickets. Of jobs that overlap policies keep in order, a store may leave the claim
        /// to whoever takes their tickets.
        ///
        /// If the answer is lost, [`recall`](super::ClaimStore::recall) tells what was claimed.
        async fn fire_and_claim(
            &self,
            fences: &[Fence],
            claim: &Claim,
            firings: &[Firing],
        ) -> Result<(Fired, Claims)>;
    }
}

/// Refuses what would break TICK-3 or LEAD-1 whatever the store holds.
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
