//! The jobs whose attempts end.

use serde::Deserialize;

use crate::domain::shard::ShardId;
use crate::domain::{ScheduleId, Timestamp};
use crate::store::sql::connection::Connection;
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::sql::jobs::ending::{JobEnding, RunningJob};
use crate::store::sql::notifications::rows::{AlertColumns, AlertState};
use crate::store::sqlite::connection::values::{Hex, hex, json_rows, rows_of};
use crate::store::{Completion, StoreErrorKind, sql};

/// A row of `RUNNING`. The first number is the position of the completion that the row is for.
#[derive(Deserialize)]
struct RunningRow(usize, Hex, u16, u8, i64, i64, u8, u8, Option<AlertColumns>);

/// The jobs that run the attempt that a completion names, under the claim that it names.
pub(in crate::store::sqlite) const RUNNING: &str = "
    SELECT json_group_array(json_array(
        e.key, hex(j.schedule_id), j.shard, j.max_attempts, j.started_at, j.attempt_started_at,
        j.stop, coalesce(st.active_job_id = j.id, 0),
        iif(st.alert_on IS NULL, NULL, json_array(
            st.alert_on, st.alert_threshold, st.alert_repeat_minutes, st.consecutive_failures,
            st.alerted_at))))
    FROM jsonb_each(?1) AS e CROSS JOIN runs AS j
    LEFT JOIN schedule_state AS st ON st.shard = j.shard AND st.schedule_id = j.schedule_id
    WHERE j.id = unhex(e.value ->> 0) AND j.status = 1 AND j.attempt_number = e.value ->> 1
      AND j.claimed_by = unhex(e.value ->> 2)";

impl RunningRow {
    fn running(&self) -> RunningJob {
        let &Self(position, schedule, shard, max, started, attempt_started, stop, ..) = self;
        RunningJob {
            position,
            schedule: ScheduleId::from_bytes(schedule.0),
            shard: ShardId(shard),
            max_attempts: max,
            started_at: Timestamp::from_millis(started),
            attempt_started_at: Timestamp::from_millis(attempt_started),
            stop,
        }
    }
}

/// Decides what becomes of the jobs of a chunk. Also returns those of their schedules that have a
/// notification preference. Jobs whose claim was lost are left out.
pub(in crate::store::sqlite) async fn read(
    connection: &mut Connection<'_>,
    chunk: &[&Completion],
) -> SqlResult<(Vec<JobEnding>, Vec<AlertState>)> {
    let claims = chunk.iter().map(|c| (hex(&c.job), c.attempt, hex(&c.executor)));
    let rows: String = sql::query_scalar(RUNNING)
        .bind(json_rows(&claims.collect::<Vec<_>>()))
        .fetch_one(connection)
        .await?;
    let damaged = || SqlError::new(StoreErrorKind::Corrupt, "a job's row cannot be read back");
    let rows = rows_of::<RunningRow>(&rows)?;
    // One statement has read all rows, so the rows of one schedule are the same.
    let alerts = rows.iter().filter_map(|row| {
        let schedule = ScheduleId::from_bytes(row.1.0);
        Some(AlertState::new(ShardId(row.2), schedule, row.8?))
    });
    let alerts = alerts.collect();
    let endings = rows.into_iter().map(|row| {
        let completion = chunk.get(row.0).ok_or_else(damaged)?;
        let is_active = row.7 != 0;
        Ok(JobEnding { is_active, ..JobEnding::new(&row.running(), completion) })
    });
    Ok((endings.collect::<SqlResult<_>>()?, alerts))
}
