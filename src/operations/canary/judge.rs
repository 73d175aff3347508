//! What became of one tick.

use std::time::Duration;

use crate::domain::job::{Job, JobStatus, Trigger};
use crate::domain::{ScheduleId, Timestamp};
use crate::telemetry::metrics::CanaryResult;

/// What begins later than this after its instant is late.
const LATE: Duration = Duration::from_secs(1);

/// Judges the tick of a schedule by the jobs that there are of it.
pub(super) fn judge(tick: Timestamp, schedule: ScheduleId, jobs: &[Job]) -> CanaryResult {
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
