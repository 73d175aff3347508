//! Skips the ticks that have become due since a restored backup was made.
//!
//! Their jobs may have run before the restore, and the store no longer knows it. The next tick of
//! each schedule moves past the present, and the earlier ticks become a recorded skip (TICK-2), in
//! the same fenced statement that a leader fires with.
//!
//! After a failure it can be called again: schedules that have moved are no longer due.

use std::collections::HashSet;

use super::decide::RecurrenceCache;
use crate::domain::firing::pass_over;
use crate::domain::schedule::SkipReason;
use crate::domain::shard::ShardId;
use crate::domain::{ScheduleId, Timestamp};
use crate::store::{Candidate, Fence, Firing, Store, StoreError, TickRange};

/// The number of schedules per statement, as in the batches of a leader.
const BATCH: u32 = 500;
/// The maximum number of tries per schedule, in case an operator's command changes or locks it
/// meanwhile.
const TRIES: u32 = 3;
/// The name that is recorded for the raised epochs.
const NAME: &str = "punctual restored";

/// The number of schedules and ticks that were passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// The schedules whose next tick has moved.
    pub schedules: u64,
    /// Their due ticks. For each schedule, the count is capped at the maximum count of a skip.
    pub ticks: u64,
    /// The schedules that are still due, because they cannot be read or their rows were locked.
    pub left: u64,
}

impl PassedOver {
    /// Adds the numbers of another shard.
    pub fn add(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.ticks += other.ticks;
        self.left += other.left;
    }
}

/// The reason why some due ticks were not passed over.
#[derive(Debug, thiserror::Error)]
pub enum PassOverError {
    /// A replica has started to lead the shard.
    #[error(
        "a replica was started meanwhile and leads schedules: stop all replicas, restore the backup \
         again, and run this before the first start"
    )]
    Led,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Passes over all ticks of a shard that are due at `now`.
///
/// # Errors
/// If a replica leads the shard meanwhile, or the store fails.
pub async fn pass_over_due(
    store: &dyn Store,
    shard: ShardId,
    now: Timestamp,
) -> Result<PassedOver, PassOverError> {
    let epoch = store.raise_epoch(shard, NAME, now).await?;
    let shard = FencedShard {
        store,
        fence: Fence { shard, epoch },
        now,
        recurrences: RecurrenceCache::new(),
    };
    let mut passed = PassedOver::default();
    let mut after = None;
    loop {
        let page = store.next_ticks(shard.fence.shard, after, BATCH).await?;
        let Some(last) = page.last() else { return Ok(passed) };
        after = Some(last.schedule);
        let due = page.iter().filter(|entry| entry.tick <= now);
        passed.add(shard.pass_over(due.map(|entry| entry.schedule).collect()).await?);
    }
}

/// A shard that is fenced off from other leaders.
struct FencedShard<'a> {
    store: &'a dyn Store,
    fence: Fence,
    now: Timestamp,
    recurrences: RecurrenceCache,
}

impl FencedShard<'_> {
    async fn pass_over(&self, mut due: Vec<ScheduleId>) -> Result<PassedOver, PassOverError> {
        let mut passed = PassedOver::default();
        for _ in 0..TRIES {
            if due.is_empty() {
                break;
            }
            let ids: Vec<_> = due.iter().map(|id| (self.fence.shard, *id)).collect();
            let mut candidates = self.store.candidates(&ids, self.now).await?;
            // Schedules that are no longer due were moved by a call whose response was lost, or by
            // an operator.
            candidates.retain(|candidate| {
                let is_due = candidate.tick <= self.now;
                due.retain(|schedule| is_due || *schedule != candidate.schedule);
                is_due
            });
            let firings: Vec<_> = candidates.iter().filter_map(|one| self.firing(one)).collect();
            let moved = self.fire(&firings).await?;
            for firing in firings.iter().filter(|firing| moved.contains(&firing.schedule)) {
                let ticks = firing.skips.iter().map(|(ticks, _)| u64::from(ticks.count));
                passed.schedules += 1;
                passed.ticks += ticks.sum::<u64>();
            }
            due.retain(|schedule| !moved.contains(schedule));
        }
        passed.left = due.len() as u64;
        Ok(passed)
    }

    /// Fires the batch and returns the schedules that have moved.
    async fn fire(&self, firings: &[Firing]) -> Result<HashSet<ScheduleId>, PassOverError> {
        let fired = self.store.fire(&[self.fence], self.now, firings).await?;
        if !fired.fenced.is_empty() {
            return Err(PassOverError::Led);
        }
        Ok(fired.advanced.into_iter().map(|(schedule, _)| schedule).collect())
    }

    /// Returns a firing that moves a schedule without a job; `None` if its expression cannot be
    /// read.
    fn firing(&self, candidate: &Candidate) -> Option<Firing> {
        let recurrence = self.recurrences.of(candidate)?;
        let ((first, last, count), next_tick) =
            pass_over(&recurrence, candidate.tick, self.now, self.now)?;
        Some(Firing {
            schedule: candidate.schedule,
            shard: candidate.shard,
            version: candidate.version,
            tick: candidate.tick,
            suspensions: candidate.suspensions,
            overlap_policy: candidate.overlap_policy,
            next_tick,
            jobs: Vec::new(),
            skips: vec![(TickRange { first, last, count }, SkipReason::Restored)],
        })
    }
}
