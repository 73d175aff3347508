//! Counts finished jobs in the states of their schedules.

use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row};

use super::batch::LockedState;
use crate::store::postgres::connection::values::column;
use crate::store::sql::encoding::rows::unfit;
use crate::store::sql::error::SqlResult;
use crate::store::sql::jobs::ending::JobEnding;
use crate::store::sql::jobs::runs::runs;
use crate::store::sql::notifications::rows::AlertState;

/// A run that began before the last known one does not count as the last. Schedules with a
/// notification preference, which are few, also return what raising events needs, as it was before
/// the update: RETURNING sees only the new values.
const COUNT_RUNS: &str = "
    UPDATE schedule_state AS st SET
        last_job_status = CASE WHEN r.run_at >= coalesce(st.last_run_at, 0) THEN r.status
                               ELSE st.last_job_status END,
        last_run_at = greatest(r.run_at, st.last_run_at),
        consecutive_failures = r.failures
                               + CASE WHEN r.succeeded THEN 0 ELSE st.consecutive_failures END,
        failures_before = CASE WHEN r.succeeded AND st.alert_on IS NOT NULL
                               THEN st.consecutive_failures ELSE st.failures_before END
    FROM unnest($1::integer[], $2::uuid[], $3::bigint[], $4::smallint[], $5::boolean[],
                $6::integer[]) AS r (shard, schedule, run_at, status, succeeded, failures)
    WHERE st.shard = r.shard AND st.schedule_id = r.schedule
    RETURNING st.shard, st.schedule_id, st.active_job_id, st.held_job_id,
        CASE WHEN st.alert_on IS NOT NULL THEN json_build_array(
            st.alert_on, st.alert_threshold, st.alert_repeat_minutes,
            CASE WHEN r.succeeded THEN st.failures_before
                 ELSE st.consecutive_failures - r.failures END,
            st.alerted_at)::text END AS alerts";

/// The schedules of a batch after its runs were counted.
#[derive(Default)]
pub(in crate::store::postgres) struct CountedStates {
    pub(in crate::store::postgres) states: Vec<LockedState>,
    /// The schedules that have a notification preference, in the state before the update.
    pub(in crate::store::postgres) alerts: Vec<AlertState>,
}

impl FromRow<'_, PgRow> for CountedRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let state = LockedState::from_row(row)?;
        let alerts: Option<String> = row.try_get("alerts")?;
        let read = |json: String| {
            let columns =
                serde_json::from_str(&json).map_err(|_| unfit("alerts", "not a policy"))?;
            Ok::<_, sqlx::Error>(AlertState::new(row.try_get("shard")?, state.schedule, columns))
        };
        let alerts = alerts.map(read).transpose()?;
        Ok(Self { state, alerts })
    }
}

struct CountedRow {
    state: LockedState,
    alerts: Option<AlertState>,
}

/// Updates the schedules of the jobs that are final, in the order of the schedules' ids.
pub(in crate::store::postgres) async fn count_runs(
    connection: &mut PgConnection,
    endings: &[JobEnding],
) -> SqlResult<CountedStates> {
    let mut schedules: Vec<_> = runs(endings).into_iter().collect();
    if schedules.is_empty() {
        return Ok(CountedStates::default());
    }
    schedules.sort_unstable_by_key(|((_, schedule), _)| *schedule);
    let query = sqlx::query_as(COUNT_RUNS)
        .bind(column(&schedules, |((shard, _), _)| *shard))
        .bind(column(&schedules, |((_, schedule), _)| *schedule))
        .bind(column(&schedules, |(_, runs)| runs.last.0))
        .bind(column(&schedules, |(_, runs)| runs.last.1))
        .bind(column(&schedules, |(_, runs)| runs.succeeded))
        .bind(column(&schedules, |(_, runs)| runs.failures.cast_signed()));
    let rows: Vec<CountedRow> = query.fetch_all(connection).await?;
    let mut counted = CountedStates { states: Vec::with_capacity(rows.len()), alerts: Vec::new() };
    for CountedRow { state, alerts } in rows {
        counted.states.push(state);
        counted.alerts.extend(alerts);
    }
    Ok(counted)
}
