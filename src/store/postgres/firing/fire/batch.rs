//! A batch of firings as arrays, one for each column.
//!
//! The arrays are paired by position. The jobs of all firings have arrays of their own, where
//! `job_positions` names the firing of each job by its position.

use std::collections::HashSet;

use crate::domain::job::Trigger;
use crate::domain::shard::ShardId;
use crate::domain::{JobId, ScheduleId, Timestamp, VersionId};
use crate::store::Firing;

/// A batch as arrays.
#[derive(Default)]
pub(super) struct FiringColumns {
    pub(super) positions: Vec<i64>,
    pub(super) schedules: Vec<ScheduleId>,
    pub(super) shards: Vec<ShardId>,
    pub(super) versions: Vec<VersionId>,
    pub(super) ticks: Vec<Timestamp>,
    pub(super) suspensions: Vec<i64>,
    /// The last tick of each firing that becomes a job or a skip.
    pub(super) up_to: Vec<Option<Timestamp>>,
    pub(super) next_ticks: Vec<Option<Timestamp>>,
    pub(super) job_positions: Vec<i64>,
    pub(super) jobs: Vec<JobId>,
    pub(super) triggers: Vec<Trigger>,
    pub(super) job_ticks: Vec<Timestamp>,
}

impl FiringColumns {
    /// Orders the firings by the ids of their schedules. A second firing of the same schedule is
    /// left out: it is stale after the first one.
    pub(super) fn new(firings: &[(i64, &Firing)]) -> Self {
        let (mut batch, mut seen) = (Self::default(), HashSet::with_capacity(firings.len()));
        let mut ordered = firings.to_vec();
        ordered.sort_by_key(|(_, firing)| firing.schedule);
        for (position, firing) in ordered {
            if !seen.insert(firing.schedule) {
                continue;
            }
            batch.positions.push(position);
            batch.schedules.push(firing.schedule);
            batch.shards.push(firing.shard);
            batch.versions.push(firing.version);
            batch.ticks.push(firing.tick);
            batch.suspensions.push(firing.suspensions);
            batch.up_to.push(firing.last_tick());
            batch.next_ticks.push(firing.next_tick);
            for job in &firing.jobs {
                batch.job_positions.push(position);
                batch.jobs.push(job.id);
                batch.triggers.push(job.trigger);
                batch.job_ticks.push(job.id.timestamp());
            }
        }
        batch
    }
}
