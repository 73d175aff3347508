//! Counts finished jobs in the states of their schedules.

use crate::domain::ScheduleId;
use crate::domain::shard::ShardId;
use crate::store::sql;
use crate::store::sql::connection::Connection;
use crate::store::sql::error::SqlResult;
use crate::store::sql::jobs::ending::JobEnding;
use crate::store::sql::jobs::runs::{ScheduleRuns, runs};
use crate::store::sqlite::connection::values::{hex, json_rows, status_code};

/// A run that began before the last known one does not count as the last.
pub(in crate::store::sqlite) const COUNT_RUNS: &str = "
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

/// Updates the schedules of the jobs that are final.
pub(in crate::store::sqlite) async fn count_runs(
    connection: &mut Connection<'_>,
    endings: &[JobEnding],
) -> SqlResult<()> {
    // In the order of the key, because neighbours share pages.
    let schedules = runs(endings);
    if schedules.is_empty() {
        return Ok(());
    }
    let row = |((shard, schedule), runs): ((ShardId, ScheduleId), ScheduleRuns)| {
        let ScheduleRuns { last: (run_at, status), succeeded, failures } = runs;
        (shard.0, hex(&schedule), run_at.as_millis(), status_code(status), succeeded, failures)
    };
    let rows = json_rows(&schedules.into_iter().map(row).collect::<Vec<_>>());
    sql::query(COUNT_RUNS).bind(rows).run(connection).await
}
