//! A bound of the jobs of a schedule that have not begun: whatever keeps them waiting, a target that
//! hangs or executors that are away, the store and the queue grow no further by that schedule.
//!
//! Only of jobs that find no room at once it is asked how many there are, and so many more are made
//! before it is asked again: nobody but the leader of a shard makes jobs of its ticks, and those that
//! begin meanwhile leave more room than is known. What users trigger counts, and is not bounded here.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::ScheduleId;
use crate::domain::plan::Plans;
use crate::domain::schedule::OverlapPolicy;
use crate::domain::shard::{Epoch, ShardId};
use crate::store::{Fence, Firing, SharedStore, StoreError, TickJob};

/// Of how many schedules it is known how many more jobs may be made, some 50 bytes each.
const MOST: usize = 100_000;

/// How many more jobs may wait.
pub(super) struct Backlog {
    plans: Arc<Plans>,
    rooms: Mutex<HashMap<ScheduleId, Room>>,
}

/// What is known of a schedule, in a term of its shard.
#[derive(Clone, Copy)]
struct Room {
    epoch: Epoch,
    jobs: u32,
}

impl Backlog {
    pub(super) fn new(plans: Arc<Plans>) -> Self {
        Self { plans, rooms: Mutex::default() }
    }

    /// How many of their jobs may be made, in the order of the firings. `plan` says by which plan. Other jobs than those that may overlap wait for each other, and are few.
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
        let mut rooms = self.lock();
        if rooms.len() + ids.len() > MOST {
            rooms.clear();
        }
        let asked: HashSet<_> = ids.into_iter().collect();
        let take = |firing: &Firing| {
            let Some(epoch) = epochs.get(&firing.shard).filter(|_| is_bounded(firing)) else {
                return firing.jobs.len();
            };
            if asked.contains(&firing.schedule) {
                let waiting = counted.get(&firing.schedule).copied().unwrap_or(0);
                let jobs = bound(firing).saturating_sub(waiting);
                rooms.insert(firing.schedule, Room { epoch: *epoch, jobs });
            }
            let Some(room) = rooms.get_mut(&firing.schedule) else { return firing.jobs.len() };
            let taken = count(&firing.jobs).min(room.jobs);
            room.jobs -= taken;
            taken as usize
        };
        Ok(firings.iter().map(take).collect())
    }

    /// Forgets what was taken for firings: nobody knows what has become of them.
    pub(super) fn forget(&self, firings: &[Firing]) {
        let mut rooms = self.lock();
        for firing in firings {
            rooms.remove(&firing.schedule);
        }
    }

    /// Those of which it is not known that there is room for their jobs.
    fn unknown<'a>(
        &self,
        epochs: &HashMap<ShardId, Epoch>,
        firings: &'a [Firing],
    ) -> Vec<&'a Firing> {
        let rooms = self.lock();
        let is_known = |firing: &Firing| {
            rooms.get(&firing.schedule).is_some_and(|room| {
                epochs.get(&firing.shard) == Some(&room.epoch) && room.jobs >= count(&firing.jobs)
            })
        };
        firings.iter().filter(|firing| is_bounded(firing) && !is_known(firing)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ScheduleId, Room>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_bounded(firing: &Firing) -> bool {
    firing.overlap_policy == OverlapPolicy::Allow && !firing.jobs.is_empty()
}

fn count(jobs: &[TickJob]) -> u32 {
    u32::try_from(jobs.len()).unwrap_or(u32::MAX)
}
