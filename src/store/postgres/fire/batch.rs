//! A batch of firings as columns.
//!
//! Columns are paired by position. The jobs and the skips of all firings are in columns of their
//! own, and say by its place which firing they belong to.

use std::collections::HashSet;

use crate::domain::job::Trigger;
use crate::domain::schedule::SkipReason;
use crate::domain::shard::ShardId;
use crate::domain::{JobId, ScheduleId, Timestamp, VersionId};
use crate::store::postgres::skips::counted;
use crate::store::{Firing, TickRange};

/// A batch as columns.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) places: Vec<i64>,
    pub(super) schedules: Vec<ScheduleId>,
    pub(super) shards: Vec<ShardId>,
    pub(super) versions: Vec<VersionId>,
    pub(super) ticks: Vec<Timestamp>,
    pub(super) suspensions: Vec<i64>,
    /// The last tick that becomes a job or a skip.
    pub(super) up_to: Vec<Option<Timestamp>>,
    pub(super) next_ticks: Vec<Option<Timestamp>>,
    pub(super) job_places: Vec<i64>,
    pub(super) jobs: Vec<JobId>,
    pub(super) triggers: Vec<Trigger>,
    pub(super) job_ticks: Vec<Timestamp>,
    pub(super) skip_places: Vec<i64>,
    pub(super) skips_from: Vec<Timestamp>,
    pub(super) skips_to: Vec<Timestamp>,
    pub(super) skip_counts: Vec<i32>,
    pub(super) reasons: Vec<SkipReason>,
}

impl Batch {
    /// In the order of the schedules' ids. The second firing of the same schedule is left out: it
    /// is stale after the first.
    pub(super) fn new(firings: &[(i64, &Firing)]) -> Self {
        let (mut batch, mut seen) = (Self::default(), HashSet::with_capacity(firings.len()));
        let mut ordered = firings.to_vec();
        ordered.sort_by_key(|(_, firing)| firing.schedule);
        for (place, firing) in ordered {
            if !seen.insert(firing.schedule) {
                continue;
            }
            batch.places.push(place);
            batch.schedules.push(firing.schedule);
            batch.shards.push(firing.shard);
            batch.versions.push(firing.version);
            batch.ticks.push(firing.tick);
            batch.suspensions.push(firing.suspensions);
            batch.up_to.push(firing.last_tick());
            batch.next_ticks.push(firing.next_tick);
            for job in &firing.jobs {
                batch.job_places.push(place);
                batch.jobs.push(job.id);
                batch.triggers.push(job.trigger);
                batch.job_ticks.push(job.id.timestamp());
            }
            for (range, reason) in merged(firing) {
                batch.skip_places.push(place);
                batch.skips_from.push(range.first);
                batch.skips_to.push(range.last);
                batch.skip_counts.push(counted(range.count));
                batch.reasons.push(reason);
            }
        }
        batch
    }
}

/// The skips of a firing, oldest first; consecutive ones of one reason are one range.
fn merged(firing: &Firing) -> Vec<(TickRange, SkipReason)> {
    let mut skips = firing.skips.clone();
    skips.sort_by_key(|(range, _)| range.first);
    let mut merged: Vec<(TickRange, SkipReason)> = Vec::with_capacity(skips.len());
    for (range, reason) in skips {
        let between = |last: Timestamp, job: Timestamp| last < job && job < range.first;
        match merged.last_mut() {
            Some((open, same))
                if *same == reason
                    && !firing.jobs.iter().any(|job| between(open.last, job.id.timestamp())) =>
            {
                open.last = range.last;
                open.count = open.count.saturating_add(range.count);
            }
            _ => merged.push((range, reason)),
        }
    }
    merged
}
