//! What finished jobs mean for their schedules: the last run and the streak of failures.

use std::collections::BTreeMap;

use sqlx::SqliteConnection;

use super::ending::Ending;
use super::error::Outcome;
use super::values::{hex, json_rows, status_code};
use crate::domain::job::JobStatus;
use crate::domain::outcome::ErrorCode;
use crate::domain::shard::ShardId;
use crate::domain::{ScheduleId, Timestamp};

/// What the jobs that ended in a round mean for one schedule.
struct Runs {
    last: (Timestamp, JobStatus),
    succeeded: bool,
    failures: u32,
}

/// A run that began before the last one known does not count as the last.
pub(super) const COUNT_RUNS: &str = "
    UPDATE schedule_state SET
        last_job_status = CASE WHEN r.run_at >= coalesce(last_run_at, 0) THEN r.status
                               ELSE last_job_status END,
        last_run_at = max(r.run_at, coalesce(last_run_at, 0)),
        consecutive_failures = r.failures
                               + CASE WHEN r.succeeded THEN 0 ELSE consecutive_failures END
    FROM (SELECT value ->> 0 AS shard, unhex(value ->> 1) AS schedule, value ->> 2 AS run_at,
                 value ->> 3 AS status, value ->> 4 AS succeeded, value ->> 5 AS failures
          FROM jsonb_each(?1)) AS r
    WHERE schedule_state.shard = r.shard AND schedule_state.schedule_id = r.schedule";

/// Updates the schedules of the jobs that are final. Cancelled ones do not count.
pub(super) async fn count_runs(
    connection: &mut SqliteConnection,
    endings: &[Ending],
) -> Outcome<()> {
    // In the order of the key: neighbours share pages.
    let mut schedules: BTreeMap<(ShardId, ScheduleId), Runs> = BTreeMap::new();
    for ending in endings.iter().filter(|ending| counts(ending)) {
        let last = (ending.started_at, ending.status);
        let runs = schedules.entry((ending.shard, ending.schedule)).or_insert(Runs {
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
    if schedules.is_empty() {
        return Ok(());
    }
    let row = |((shard, schedule), runs): ((ShardId, ScheduleId), Runs)| {
        let Runs { last: (run_at, status), succeeded, failures } = runs;
        (shard.0, hex(&schedule), run_at.as_millis(), status_code(status), succeeded, failures)
    };
    let rows = json_rows(&schedules.into_iter().map(row).collect::<Vec<_>>());
    sqlx::query(COUNT_RUNS).bind(rows).execute(connection).await?;
    Ok(())
}

fn counts(ending: &Ending) -> bool {
    let code = ending.failure.as_ref().map(|failure| failure.code);
    ending.status.is_final() && code != Some(ErrorCode::Cancelled)
}
