//! Judges one tick of the canary: on time, late, missed or doubled.

use std::time::Duration;

use crate::domain::job::{Job, JobStatus, Trigger};
use crate::domain::{ScheduleId, Timestamp};
use crate::telemetry::metrics::CanaryResult;

/// The largest delay between a tick and the start of its job that still counts as on time.
const LATE: Duration = Duration::from_secs(1);

/// Returns the result of one tick of a schedule, judged by the jobs among `jobs` that the tick
/// made.
pub(super) fn judge(tick: Timestamp, schedule: ScheduleId, jobs: &[Job]) -> CanaryResult {
    // Manual runs and retries do not belong to the tick.
    let of_tick = |job: &&Job| {
        job.schedule_id == schedule
            && job.scheduled_run_at == tick
            && matches!(job.trigger, Trigger::Schedule | Trigger::CatchUp)
    };
    let jobs: Vec<&Job> = jobs.iter().filter(of_tick).collect();
    match jobs[..] {
        [job] if job.status == JobStatus::Success => match job.started_at {
            Some(at) if at.since(tick) <= LATE => CanaryResult::OnTime,
            _ => CanaryResult::Late,
        },
        [] | [_] => CanaryResult::Missed,
        _ => CanaryResult::Doubled,
    }
}
