//! Raises the events of jobs, in the transaction that ends the jobs.

use std::collections::HashMap;

use sqlx::AssertSqlSafe;

use super::rows::AlertState;
use crate::domain::alert::policy::{JobEnd, RaisedEvent, Streak};
use crate::domain::job::JobStatus;
use crate::domain::{EventId, JobId, ScheduleId, Timestamp};
use crate::store::sql;
use crate::store::sql::connection::Connection;
use crate::store::sql::encoding::batch_rows::{batch_row, json};
use crate::store::sql::encoding::hex::Hex;
use crate::store::sql::error::SqlResult;
use crate::store::sql::jobs::ending::JobEnding;
use crate::store::sql::jobs::runs::counts;

batch_row! {
    /// An event as a row to be written.
    EventRow {
        id: Hex, schedule_id: Hex, job_id: Hex, kind: &'static str, at: i64, failures: u32,
        wanted: bool,
    }
}

batch_row! {
    /// The time of a schedule's last failure alert, as a row to be written.
    AlertedRow { shard: u16, schedule_id: Hex, told_at: Option<i64> }
}

/// Writes the events that the ends of jobs raise, and returns their number. `before` is the number
/// of events that this transaction has already written: ids sort in the order of events.
pub(in crate::store) async fn raise(
    connection: &mut Connection<'_>,
    now: Timestamp,
    before: u64,
    endings: &[JobEnding],
    states: &[AlertState],
) -> SqlResult<u64> {
    if states.is_empty() {
        return Ok(0);
    }
    let mut streaks: HashMap<ScheduleId, (AlertState, Streak)> =
        states.iter().map(|state| (state.schedule, (*state, state.streak))).collect();
    let (mut events, mut jobs) = (Vec::new(), Vec::new());
    for ending in endings.iter().filter(|ending| counts(ending)) {
        let Some((state, streak)) = streaks.get_mut(&ending.schedule) else { continue };
        let end = match ending.status {
            JobStatus::Success => JobEnd::Succeeded,
            _ => JobEnd::Failed,
        };
        let (raised, after) = state.policy.judge(*streak, end, now);
        *streak = after;
        for raised in raised {
            let position =
                usize::try_from(before).unwrap_or(usize::MAX).saturating_add(events.len());
            events.push(event(ending, raised, now, position));
            jobs.push(ending.job);
        }
    }
    let alerted =
        streaks.into_values().filter(|(state, after)| state.streak.told_at != after.told_at);
    let alerted: Vec<AlertedRow> = alerted
        .map(|(state, after)| AlertedRow {
            shard: state.shard.0,
            schedule_id: Hex(state.schedule.to_bytes()),
            told_at: after.told_at.map(Timestamp::as_millis),
        })
        .collect();
    note(connection, alerted).await?;
    insert(connection, &events, &jobs).await
}

fn event(ending: &JobEnding, raised: RaisedEvent, at: Timestamp, position: usize) -> EventRow {
    let RaisedEvent { kind, failures, wanted } = raised;
    let id = EventId::of(ending.job.to_bytes(), kind.as_str(), at).at_position(position);
    EventRow {
        id: Hex(id.to_bytes()),
        schedule_id: Hex(ending.schedule.to_bytes()),
        job_id: Hex(ending.job.to_bytes()),
        kind: kind.as_str(),
        at: at.as_millis(),
        failures,
        wanted,
    }
}

/// Stores the times of the last failure alerts.
async fn note(connection: &mut Connection<'_>, alerted: Vec<AlertedRow>) -> SqlResult<()> {
    if alerted.is_empty() {
        return Ok(());
    }
    let statement = format!(
        "UPDATE schedule_state SET alerted_at = r.told_at FROM {}
         WHERE schedule_state.shard = r.shard AND schedule_state.schedule_id = r.schedule_id",
        connection.dialect().rows::<AlertedRow>("$1")
    );
    sql::query(AssertSqlSafe(statement)).bind(json(&alerted)).run(connection).await
}

/// Inserts events with the current name of the schedule and the host that the job called. The
/// history has one partition per day: the statement reads only those between the first and the last
/// of `jobs`.
async fn insert(
    connection: &mut Connection<'_>,
    events: &[EventRow],
    jobs: &[JobId],
) -> SqlResult<u64> {
    let (Some(first), Some(last)) = (jobs.iter().min(), jobs.iter().max()) else {
        return Ok(0);
    };
    let statement = format!(
        "INSERT INTO notification_events (id, account_id, schedule_id, job_id, type, at, host_key,
                                          failures, wanted, schedule_name)
         SELECT r.id, s.account_id, r.schedule_id, r.job_id, r.kind, r.at, v.host_key, r.failures,
                r.wanted, s.name
         FROM {} JOIN schedules AS s ON s.id = r.schedule_id
         JOIN jobs AS j ON j.id = r.job_id AND j.id BETWEEN $2 AND $3
         JOIN schedule_versions AS v ON v.id = j.version_id
         WHERE true ON CONFLICT (id) DO NOTHING",
        connection.dialect().rows::<EventRow>("$1")
    );
    let written = sql::query(AssertSqlSafe(statement)).bind(json(events)).bind(*first).bind(*last);
    written.execute(connection).await
}
