//! Writes an alert plan to the database.

use sqlx::AssertSqlSafe;

use super::items::{DeliveryState, PlannedDelivery, PlannedIncident};
use super::plan::AlertPlan;
use super::rows::stage_code;
use crate::domain::alert::delivery::DeliveryError;
use crate::domain::{AccountId, DeliveryId, IncidentId, ScheduleId, Timestamp};
use crate::store::sql;
use crate::store::sql::connection::Connection;
use crate::store::sql::connection::query::write_rows;
use crate::store::sql::encoding::batch_rows::{BatchRow, ColumnType, batch_row, json, json_ids};
use crate::store::sql::encoding::hex::Hex;
use crate::store::sql::error::SqlResult;

/// Writes the deliveries, incidents and channels of a plan.
pub(in crate::store) async fn write(
    connection: &mut Connection<'_>,
    plan: &AlertPlan,
) -> SqlResult<()> {
    insert_deliveries(connection, plan).await?;
    move_held(connection, plan).await?;
    write_incidents(connection, plan).await?;
    write_channels(connection, plan).await
}

batch_row! {
    /// A delivery as a row to be written.
    DeliveryRow<'p> {
        id: Hex, account_id: Hex, channel_id: Option<Hex>, event_id: Hex, schedule_id: Option<Hex>,
        job_id: Option<Hex>, incident_id: Option<Hex>, merged_into: Option<Hex>, kind: &'static str,
        status: u8, failures: u32, at: i64, wake_at: Option<i64>, completed_at: Option<i64>,
        schedule_name: Option<&'p str>, error_code: Option<&'static str>,
        error_message: Option<&'static str>, content: Option<&'p str>,
    }
}

/// The error message of an alert whose schedule has no verified channel.
const NO_CHANNEL: &str = "the schedule has no verified channel: attach one, or verify it again";

/// Returns a state as columns: the status, the delivery that it was merged into, and the time at
/// which it is due.
fn columns(state: DeliveryState) -> (u8, Option<DeliveryId>, Option<Timestamp>) {
    match state {
        DeliveryState::Held(_) => (0, None, None),
        DeliveryState::Due(at) => (1, None, Some(at)),
        DeliveryState::NoChannel => (4, None, None),
        DeliveryState::Merged(into) => (5, Some(into), None),
    }
}

impl<'p> DeliveryRow<'p> {
    fn new(planned: &'p PlannedDelivery, now: Timestamp) -> Self {
        let (status, merged_into, wake_at) = columns(planned.state);
        let none = planned.state == DeliveryState::NoChannel;
        Self {
            id: Hex(planned.id.to_bytes()),
            account_id: Hex(planned.account.to_bytes()),
            channel_id: planned.channel.map(|id| Hex(id.to_bytes())),
            event_id: Hex(planned.event.to_bytes()),
            schedule_id: planned.schedule.map(|id| Hex(id.to_bytes())),
            job_id: planned.job.map(|id| Hex(id.to_bytes())),
            incident_id: planned.incident.map(|id| Hex(id.to_bytes())),
            merged_into: merged_into.map(|id| Hex(id.to_bytes())),
            kind: planned.kind.as_str(),
            status,
            failures: planned.failures,
            at: planned.at.as_millis(),
            wake_at: wake_at.map(Timestamp::as_millis),
            completed_at: (status > 2).then_some(now.as_millis()),
            schedule_name: planned.schedule_name.as_deref(),
            error_code: none.then_some(DeliveryError::NoChannel.as_str()),
            error_message: none.then_some(NO_CHANNEL),
            content: planned.content.as_deref(),
        }
    }
}

async fn insert_deliveries(connection: &mut Connection<'_>, plan: &AlertPlan) -> SqlResult<()> {
    let planned: Vec<_> =
        plan.deliveries.iter().map(|planned| DeliveryRow::new(planned, plan.now)).collect();
    let statement = |rows: &str| {
        format!(
            "INSERT INTO notification_deliveries
             (id, account_id, channel_id, event_id, schedule_id, job_id, incident_id, merged_into,
              type, status, failures, at, created_at, wake_at, completed_at, schedule_name,
              error_code, error_message, content)
         SELECT r.id, r.account_id, r.channel_id, r.event_id, r.schedule_id, r.job_id,
                r.incident_id, r.merged_into, r.kind, r.status, r.failures, r.at,
                CAST($2 AS bigint), r.wake_at, r.completed_at, r.schedule_name, r.error_code,
                r.error_message, r.content
         FROM {rows} WHERE true ON CONFLICT (id) DO NOTHING"
        )
    };
    write_rows(connection, &planned, Some(plan.now), statement).await
}

batch_row! {
    /// The new state of a held delivery, as a row to be written.
    MovedRow { id: Hex, status: u8, merged_into: Option<Hex>, wake_at: Option<i64> }
}

/// Merges or releases the deliveries that incidents have held.
async fn move_held(connection: &mut Connection<'_>, plan: &AlertPlan) -> SqlResult<()> {
    for (incident, account, opening) in &plan.merged {
        let query = "UPDATE notification_deliveries
             SET status = 5, merged_into = $2, completed_at = $3
             WHERE incident_id = $1 AND status = 0 AND account_id = $4";
        let query = sql::query(query).bind(*incident).bind(*opening).bind(plan.now);
        query.bind(*account).execute(&mut *connection).await?;
    }
    let moved = plan.released.iter().map(|(id, state)| {
        let (status, merged_into, wake_at) = columns(*state);
        MovedRow {
            id: Hex(id.to_bytes()),
            status,
            merged_into: merged_into.map(|id| Hex(id.to_bytes())),
            wake_at: wake_at.map(Timestamp::as_millis),
        }
    });
    let moved: Vec<_> = moved.collect();
    let statement = |rows: &str| {
        format!(
            "UPDATE notification_deliveries SET status = r.status, merged_into = r.merged_into,
             wake_at = r.wake_at,
             completed_at = CASE WHEN r.status > 2 THEN CAST($2 AS bigint) END
         FROM {rows}
         WHERE notification_deliveries.id = r.id AND notification_deliveries.status = 0"
        )
    };
    write_rows(connection, &moved, Some(plan.now), statement).await
}

batch_row! {
    /// An incident as a row to be written.
    IncidentRow {
        id: Hex, account_id: Hex, channel_id: Hex, host_key: i64, stage: u8, due_at: i64,
        gather_until: i64, since: i64, opened_at: Option<i64>, last_failure_at: i64,
        last_recovery_at: Option<i64>, schedules: u32, failing: u32, gathered: u32, failures: u32,
        opening_id: Option<Hex>, job_id: Hex, names: String,
    }
}

impl IncidentRow {
    fn new(incident: &PlannedIncident) -> Self {
        let state = incident.state;
        Self {
            id: Hex(incident.id.to_bytes()),
            account_id: Hex(incident.account.to_bytes()),
            channel_id: Hex(incident.channel.to_bytes()),
            host_key: incident.host.0.cast_signed(),
            stage: stage_code(state.stage),
            due_at: state.due_at.as_millis(),
            gather_until: state.gather_until.as_millis(),
            since: state.since.as_millis(),
            opened_at: state.opened_at.map(Timestamp::as_millis),
            last_failure_at: state.last_failure_at.as_millis(),
            last_recovery_at: state.last_recovery_at.map(Timestamp::as_millis),
            schedules: state.schedules,
            failing: state.failing,
            gathered: state.gathered,
            failures: state.failures,
            opening_id: incident.opening.map(|id| Hex(id.to_bytes())),
            job_id: Hex(incident.job.to_bytes()),
            names: json(&incident.names),
        }
    }
}

/// Returns the columns of an incident, separated by commas, for reading and writing.
pub(in crate::store) fn incident_columns() -> String {
    IncidentRow::COLUMNS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

async fn write_incidents(connection: &mut Connection<'_>, plan: &AlertPlan) -> SqlResult<()> {
    // Ended incidents are deleted first. Channel and host are unique, and another incident may have
    // begun for the same host.
    let ended = || plan.ended.iter().map(|id| id.to_bytes());
    remove(connection, "incident_schedules", "incident_id", ended()).await?;
    remove(connection, "notification_incidents", "id", ended()).await?;
    let changed = plan.incidents.values().filter(|one| one.changed);
    let incidents: Vec<_> = changed.map(IncidentRow::new).collect();
    let statement = |rows: &str| {
        let names = || IncidentRow::COLUMNS.iter().map(|(name, _)| *name);
        let read: Vec<String> = names().map(|name| format!("r.{name}")).collect();
        let set: Vec<String> =
            names().skip(1).map(|name| format!("{name} = excluded.{name}")).collect();
        format!(
            "INSERT INTO notification_incidents ({}) SELECT {} FROM {rows}
             WHERE true ON CONFLICT (id) DO UPDATE SET {}",
            incident_columns(),
            read.join(", "),
            set.join(", ")
        )
    };
    write_rows(connection, &incidents, None, statement).await?;
    write_members(connection, plan).await
}

batch_row! {
    /// The membership of a schedule in an incident, as a row to be written.
    MemberRow { id: Hex, account_id: Hex, incident_id: Hex, schedule_id: Hex, failing: bool }
}

async fn write_members(connection: &mut Connection<'_>, plan: &AlertPlan) -> SqlResult<()> {
    type Joined<'p> = (&'p (IncidentId, ScheduleId), &'p (AccountId, bool));
    let row = |((incident, schedule), (account, failing)): Joined<'_>| MemberRow {
        id: Hex(incident.member(*schedule)),
        account_id: Hex(account.to_bytes()),
        incident_id: Hex(incident.to_bytes()),
        schedule_id: Hex(schedule.to_bytes()),
        failing: *failing,
    };
    let members: Vec<_> = plan.joined.iter().map(row).collect();
    let statement = |rows: &str| {
        format!(
            "INSERT INTO incident_schedules (id, account_id, incident_id, schedule_id, failing)
             SELECT r.id, r.account_id, r.incident_id, r.schedule_id, r.failing FROM {rows}
             WHERE true ON CONFLICT (id) DO UPDATE SET failing = excluded.failing"
        )
    };
    write_rows(connection, &members, None, statement).await
}

batch_row! {
    /// The number of alerts that a channel was sent in the current minute, and its open digest, as
    /// a row to be written.
    FlowRow { id: Hex, window_began: i64, window_sent: u32, digest_id: Option<Hex> }
}

async fn write_channels(connection: &mut Connection<'_>, plan: &AlertPlan) -> SqlResult<()> {
    let changed = plan.channels.iter().filter(|(_, channel)| channel.changed);
    let flows: Vec<_> = changed
        .map(|(id, channel)| FlowRow {
            id: Hex(id.to_bytes()),
            window_began: channel.flow.window_began.as_millis(),
            window_sent: channel.flow.sent,
            digest_id: channel
                .digest
                .filter(|_| channel.flow.has_digest)
                .map(|d| Hex(d.to_bytes())),
        })
        .collect();
    let statement = |rows: &str| {
        format!(
            "UPDATE notification_channels SET window_began = r.window_began,
                 window_sent = r.window_sent, digest_id = r.digest_id
             FROM {rows} WHERE notification_channels.id = r.id"
        )
    };
    write_rows(connection, &flows, None, statement).await
}

/// Deletes the rows of a table whose `column` is one of `ids`.
pub(in crate::store) async fn remove(
    connection: &mut Connection<'_>,
    table: &str,
    column: &str,
    ids: impl Iterator<Item = [u8; 16]>,
) -> SqlResult<()> {
    let ids: Vec<_> = ids.collect();
    if ids.is_empty() {
        return Ok(());
    }
    let statement = format!(
        "DELETE FROM {table} WHERE {}",
        connection.dialect().among(column, ColumnType::Id, "$1")
    );
    sql::query(AssertSqlSafe(statement)).bind(json_ids(ids)).run(connection).await
}
