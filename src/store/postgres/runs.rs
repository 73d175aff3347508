//! Counting finished jobs in their schedules' states.

use sqlx::PgConnection;

use super::batch::State;
use super::error::Outcome;
use super::values::column;
use crate::store::ending::Ending;
use crate::store::runs::runs;

/// A run that began before the last one known does not count as the last.
const COUNT_RUNS: &str = "
    UPDATE schedule_state AS st SET
        last_job_status = CASE WHEN r.run_at >= coalesce(st.last_run_at, 0) THEN r.status
                               ELSE st.last_job_status END,
        last_run_at = greatest(r.run_at, st.last_run_at),
        consecutive_failures = r.failures
                               + CASE WHEN r.succeeded THEN 0 ELSE st.consecutive_failures END
    FROM unnest($1::integer[], $2::uuid[], $3::bigint[], $4::smallint[], $5::boolean[],
                $6::integer[]) AS r (shard, schedule, run_at, status, succeeded, failures)
    WHERE st.shard = r.shard AND st.schedule_id = r.schedule
    RETURNING st.schedule_id, st.active_job_id, st.held_job_id";

/// Updates the schedules of the jobs that are final, in the order of their ids; returns their
/// states.
pub(super) async fn count_runs(
    connection: &mut PgConnection,
    endings: &[Ending],
) -> Outcome<Vec<State>> {
    let mut schedules: Vec<_> = runs(endings).into_iter().collect();
    if schedules.is_empty() {
        return Ok(Vec::new());
    }
    schedules.sort_unstable_by_key(|((_, schedule), _)| *schedule);
    let query = sqlx::query_as(COUNT_RUNS)
        .bind(column(&schedules, |((shard, _), _)| *shard))
        .bind(column(&schedules, |((_, schedule), _)| *schedule))
        .bind(column(&schedules, |(_, runs)| runs.last.0))
        .bind(column(&schedules, |(_, runs)| runs.last.1))
        .bind(column(&schedules, |(_, runs)| runs.succeeded))
        .bind(column(&schedules, |(_, runs)| runs.failures.cast_signed()));
    Ok(query.fetch_all(connection).await?)
}
