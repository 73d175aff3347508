//! Decides which due ticks of a schedule become jobs if the jobs may have to wait for each other.

use crate::domain::schedule::{OverlapPolicy, SkipReason};
use crate::domain::{JobId, Timestamp};
use crate::store::{Firing, TickJob, TickRange};

/// The overlap state of a schedule: as it was read when it is fired, and then as it is to be
/// stored.
pub(in crate::store) struct OverlapState {
    pub(in crate::store) overlap_policy: OverlapPolicy,
    /// The active job, which others wait for.
    pub(in crate::store) active: Option<JobId>,
    /// The held job, which starts when the active one has finished.
    pub(in crate::store) held: Option<JobId>,
    /// The last tick that was fired.
    pub(in crate::store) fired_up_to: Option<Timestamp>,
}

/// The results for the ticks of a firing.
pub(in crate::store) struct PlacedTicks {
    /// The jobs to be created, oldest first, with `true` if they start; the others are held.
    pub(in crate::store) jobs: Vec<(TickJob, bool)>,
    /// The ticks that become skips, oldest first.
    pub(in crate::store) skips: Vec<(TickRange, SkipReason)>,
    /// The number of jobs among these that were skipped because of an overlap.
    pub(in crate::store) overlapped: u64,
}

/// The result for the job of a tick.
enum TickPlacement {
    Start,
    Hold,
    Skip,
}

impl OverlapState {
    /// Decides about each of the jobs, oldest first. No tick up to the last one that was fired
    /// becomes another job (TICK-1).
    pub(in crate::store) fn fire(&mut self, firing: &Firing) -> PlacedTicks {
        let before = self.fired_up_to;
        // `None` is less than any tick.
        self.fired_up_to = firing.last_tick().max(before);
        let (mut jobs, mut skips, mut overlapped) = (Vec::new(), firing.skips.clone(), 0);
        for job in firing.jobs.iter().filter(|job| Some(job.id.timestamp()) > before) {
            match self.place(job.id) {
                TickPlacement::Start => jobs.push((*job, true)),
                TickPlacement::Hold => jobs.push((*job, false)),
                TickPlacement::Skip => {
                    let tick = job.id.timestamp();
                    let range = TickRange { first: tick, last: tick, count: 1 };
                    skips.push((range, SkipReason::Overlap));
                    overlapped += 1;
                }
            }
        }
        skips.sort_by_key(|(range, _)| range.first);
        PlacedTicks { jobs, skips, overlapped }
    }

    /// Decides about the next job, and makes it the active or the held one if that is free.
    fn place(&mut self, job: JobId) -> TickPlacement {
        let queues = self.overlap_policy == OverlapPolicy::QueueOne;
        if self.overlap_policy == OverlapPolicy::Allow {
            TickPlacement::Start
        } else if self.active.is_none() {
            self.active = Some(job);
            TickPlacement::Start
        } else if queues && self.held.is_none() {
            self.held = Some(job);
            TickPlacement::Hold
        } else {
            TickPlacement::Skip
        }
    }
}
