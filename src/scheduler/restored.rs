//! After a backup was restored: the ticks that have become due since it was made are passed over.
//!
//! They may have run before the backup was needed, and the store no longer knows. Each schedule's
//! next tick moves past the present instant, and the ticks before it become a recorded skip
//! (TICK-2), in the same fenced statement that a leader fires with.
//!
//! On failure it can be called again: what has moved stays, and is not due any more.

use std::collections::HashSet;

use super::decide::Cadences;
use crate::domain::firing::pass_over;
use crate::domain::schedule::SkipReason;
use crate::domain::shard::ShardId;
use crate::domain::{ScheduleId, Timestamp};
use crate::store::{Candidate, Fence, Firing, FiringStore, StoreError, TickRange};

/// How many schedules are moved by one statement, as many as a leader fires at once.
const BATCH: u32 = 500;
/// How often a schedule is tried that an operator's command has changed or held meanwhile.
const TRIES: u32 = 3;
/// Who the shards are led by meanwhile, in the record of who raised an epoch.
const NAME: &str = "punctual restored";

/// What was passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// The schedules whose next tick has moved.
    pub schedules: u64,
    /// Their ticks that were due; of each schedule no more than a skip counts.
    pub ticks: u64,
    /// The schedules that are still due: they cannot be read, or were held by somebody else.
    pub left: u64,
}

impl PassedOver {
    /// Adds what was passed over in another shard.
    pub fn add(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.ticks += other.ticks;
        self.left += other.left;
    }
}

/// Why not all that is due was passed over.
#[derive(Debug, thiserror::Error)]
pub enum PassOverError {
    /// A replica has begun to lead the shard.
    #[error(
        "a replica was started meanwhile and leads schedules: stop all replicas, restore the backup \
         again, and run this before the first start"
    )]
    Led,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Passes over all that is due in a shard at `now`.
///
/// # Errors
/// If a replica leads the shard meanwhile, or the store fails.
pub async fn pass_over_due(
    store: &dyn FiringStore,
    shard: ShardId,
    now: Timestamp,
) -> Result<PassedOver, PassOverError> {
    let epoch = store.raise_epoch(shard, NAME, now).await?;
    let shard = Shard { store, fence: Fence { shard, epoch }, now, cadences: Cadences::new() };
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

/// A shard that is fenced off.
struct Shard<'a> {
    store: &'a dyn FiringStore,
    fence: Fence,
    now: Timestamp,
    cadences: Cadences,
}

impl Shard<'_> {
    async fn pass_over(&self, mut due: Vec<ScheduleId>) -> Result<PassedOver, PassOverError> {
        let mut passed = PassedOver::default();
        for _ in 0..TRIES {
            if due.is_empty() {
                break;
            }
            let ids: Vec<_> = due.iter().map(|id| (self.fence.shard, *id)).collect();
            let mut candidates = self.store.candidates(&ids, self.now).await?;
            // Moved by a call whose answer was lost, or by an operator.
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

    /// The schedules that have moved.
    async fn fire(&self, firings: &[Firing]) -> Result<HashSet<ScheduleId>, PassOverError> {
        let fired = self.store.fire(&[self.fence], self.now, firings).await?;
        if !fired.fenced.is_empty() {
            return Err(PassOverError::Led);
        }
        Ok(fired.advanced.into_iter().map(|(schedule, _)| schedule).collect())
    }

    /// Moves a schedule without a job; `None` if its expression cannot be read.
    fn firing(&self, candidate: &Candidate) -> Option<Firing> {
        let cadence = self.cadences.of(candidate)?;
        let ((first, last, count), next_tick) =
            pass_over(&cadence, candidate.tick, self.now, self.now)?;
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
