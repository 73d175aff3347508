//! The effect of finished jobs on their schedules: the last run and the consecutive failures.

use std::collections::BTreeMap;

use super::ending::JobEnding;
use crate::domain::job::JobStatus;
use crate::domain::outcome::ErrorCode;
use crate::domain::shard::ShardId;
use crate::domain::{ScheduleId, Timestamp};

/// The effect of the jobs that ended in a batch on one schedule.
pub(in crate::store) struct ScheduleRuns {
    /// The start and the status of the job that started last.
    pub(in crate::store) last: (Timestamp, JobStatus),
    /// `true` if a job has succeeded.
    pub(in crate::store) succeeded: bool,
    /// The number of failures since the last success in the batch.
    pub(in crate::store) failures: u32,
}

/// Returns the schedules of the jobs that are final, in the order of their key. Cancelled jobs do
/// not count.
pub(in crate::store) fn runs(
    endings: &[JobEnding],
) -> BTreeMap<(ShardId, ScheduleId), ScheduleRuns> {
    let mut schedules: BTreeMap<(ShardId, ScheduleId), ScheduleRuns> = BTreeMap::new();
    for ending in endings.iter().filter(|ending| counts(ending)) {
        let last = (ending.started_at, ending.status);
        let runs = schedules.entry((ending.shard, ending.schedule)).or_insert(ScheduleRuns {
            last,
            succeeded: false,
            failures: 0,
        });
        if runs.last.0 <= ending.started_at {
            runs.last = last;
        }
        if ending.status == JobStatus::Success {
            (runs.succeeded, runs.failures) = (true, 0);
        } else {
            runs.failures += 1;
        }
    }
    schedules
}

/// Returns `true` if the job counts as a run of its schedule: it is final and was not cancelled.
pub(in crate::store) fn counts(ending: &JobEnding) -> bool {
    let code = ending.failure.as_ref().map(|failure| failure.code);
    ending.status.is_final() && code != Some(ErrorCode::Cancelled)
}
