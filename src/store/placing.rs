//! What becomes of the due ticks of a schedule whose jobs may have to wait for each other.

use super::{Firing, TickJob, TickRange};
use crate::domain::schedule::{OverlapPolicy, SkipReason};
use crate::domain::{JobId, Timestamp};

/// A schedule as the store has it when it is fired, and then as it shall be.
pub(in crate::store) struct Standing {
    pub(in crate::store) overlap_policy: OverlapPolicy,
    /// The job that others wait for.
    pub(in crate::store) active: Option<JobId>,
    /// The one that starts when that has finished.
    pub(in crate::store) held: Option<JobId>,
    /// The last tick that was fired.
    pub(in crate::store) fired_up_to: Option<Timestamp>,
}

/// What the ticks of a firing become.
pub(in crate::store) struct Placed {
    /// The jobs to be made, oldest first, and whether they start; the others are held.
    pub(in crate::store) jobs: Vec<(TickJob, bool)>,
    /// The other ticks, oldest first.
    pub(in crate::store) skips: Vec<(TickRange, SkipReason)>,
    /// How many of these are jobs that found no place.
    pub(in crate::store) overlapped: u64,
}

/// What a tick's job becomes.
enum Place {
    Start,
    Hold,
    Skip,
}

impl Standing {
    /// Finds a place for each of the jobs, oldest first. No tick up to the last one that was fired
    /// becomes another job (TICK-1).
    pub(in crate::store) fn fire(&mut self, firing: &Firing) -> Placed {
        let before = self.fired_up_to;
        // None is before none.
        self.fired_up_to = firing.last_tick().max(before);
        let (mut jobs, mut skips, mut overlapped) = (Vec::new(), firing.skips.clone(), 0);
        for job in firing.jobs.iter().filter(|job| Some(job.id.timestamp()) > before) {
            match self.place(job.id) {
                Place::Start => jobs.push((*job, true)),
                Place::Hold => jobs.push((*job, false)),
                Place::Skip => {
                    let tick = job.id.timestamp();
                    let range = TickRange { first: tick, last: tick, count: 1 };
                    skips.push((range, SkipReason::Overlap));
                    overlapped += 1;
                }
            }
        }
        skips.sort_by_key(|(range, _)| range.first);
        Placed { jobs, skips, overlapped }
    }

    /// Finds a place for the next job and takes it.
    fn place(&mut self, job: JobId) -> Place {
        let queues = self.overlap_policy == OverlapPolicy::QueueOne;
        if self.overlap_policy == OverlapPolicy::Allow {
            Place::Start
        } else if self.active.is_none() {
            self.active = Some(job);
            Place::Start
        } else if queues && self.held.is_none() {
            self.held = Some(job);
            Place::Hold
        } else {
            Place::Skip
        }
    }
}
