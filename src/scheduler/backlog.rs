//! A limit on the jobs of a schedule that wait for their first attempt. If the target hangs or the
//! executors are away, one schedule cannot make the store and the queue grow without a limit.
//!
//! Only jobs that do not find a free slot at once are checked. The store is asked how many jobs of
//! the schedule wait, and then the leader makes jobs up to the limit without asking again. This is
//! safe: only the leader of a shard makes jobs of its ticks, and jobs that start meanwhile only add
//! capacity. Jobs that users trigger count, but are not limited here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::domain::ScheduleId;
use crate::domain::plan::Plans;
use crate::domain::schedule::OverlapPolicy;
use crate::domain::shard::{Epoch, ShardId};
use crate::runtime::Mutex;
use crate::store::{Fence, Firing, SharedStore, StoreError, TickJob};

/// The maximum number of schedules whose capacity is cached, about 50 bytes each.
const MAX_CACHED: usize = 100_000;

/// The number of jobs that may still be added, by schedule.
pub(super) struct Backlog {
    plans: Arc<Plans>,
    capacities: Mutex<HashMap<ScheduleId, BacklogCapacity>>,
}

/// The capacity of a schedule, valid for one term of its shard.
#[derive(Clone, Copy)]
struct BacklogCapacity {
    epoch: Epoch,
    jobs: u32,
}

impl Backlog {
    pub(super) fn new(plans: Arc<Plans>) -> Self {
        Self { plans, capacities: Mutex::default() }
    }

    /// Returns, for each firing, how many of its jobs may be made. `plan` returns the name of the
    /// plan. Only jobs that may overlap are limited: all others wait for each other, and are few.
    pub(super) async fn take<'a>(
        &self,
        store: &SharedStore,
        fences: &[Fence],
        plan: impl Fn(&Firing) -> Option<&'a str>,
        firings: &[Firing],
    ) -> Result<Vec<usize>, StoreError> {
        let epochs: HashMap<ShardId, Epoch> =
            fences.iter().map(|fence| (fence.shard, fence.epoch)).collect();
        let bound = |firing: &Firing| self.plans.unstarted_jobs(plan(firing));
        let unknown = self.unknown(&epochs, firings);
        let (mut most, mut ids) = (0, Vec::with_capacity(unknown.len()));
        for firing in unknown {
            most = most.max(bound(firing));
            ids.push(firing.schedule);
        }
        let counted = match ids.is_empty() {
            true => HashMap::new(),
            false => store.unstarted(&ids, most).await?,
        };
        let mut capacities = self.capacities.lock();
        if capacities.len() + ids.len() > MAX_CACHED {
            capacities.clear();
        }
        let asked: HashSet<_> = ids.into_iter().collect();
        let take = |firing: &Firing| {
            let Some(epoch) = epochs.get(&firing.shard).filter(|_| is_bounded(firing)) else {
                return firing.jobs.len();
            };
            if asked.contains(&firing.schedule) {
                let waiting = counted.get(&firing.schedule).copied().unwrap_or(0);
                let jobs = bound(firing).saturating_sub(waiting);
                capacities.insert(firing.schedule, BacklogCapacity { epoch: *epoch, jobs });
            }
            let Some(capacity) = capacities.get_mut(&firing.schedule) else {
                return firing.jobs.len();
            };
            let taken = count(&firing.jobs).min(capacity.jobs);
            capacity.jobs -= taken;
            taken as usize
        };
        Ok(firings.iter().map(take).collect())
    }

    /// Forgets the capacity of the schedules of these firings, because their outcome is unknown.
    pub(super) fn forget(&self, firings: &[Firing]) {
        let mut capacities = self.capacities.lock();
        for firing in firings {
            capacities.remove(&firing.schedule);
        }
    }

    /// Returns the firings for which the cache does not guarantee enough capacity.
    fn unknown<'a>(
        &self,
        epochs: &HashMap<ShardId, Epoch>,
        firings: &'a [Firing],
    ) -> Vec<&'a Firing> {
        let capacities = self.capacities.lock();
        let is_cached = |firing: &Firing| {
            capacities.get(&firing.schedule).is_some_and(|capacity| {
                epochs.get(&firing.shard) == Some(&capacity.epoch)
                    && capacity.jobs >= count(&firing.jobs)
            })
        };
        firings.iter().filter(|firing| is_bounded(firing) && !is_cached(firing)).collect()
    }
}

fn is_bounded(firing: &Firing) -> bool {
    firing.overlap_policy == OverlapPolicy::Allow && !firing.jobs.is_empty()
}

fn count(jobs: &[TickJob]) -> u32 {
    u32::try_from(jobs.len()).unwrap_or(u32::MAX)
}
