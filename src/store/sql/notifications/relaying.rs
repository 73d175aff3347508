//! Relays events: plans their deliveries and removes them from the outbox.
//!
//! One replica relays at a time, so that the alerts of a schedule are planned in order. One
//! transaction reads the events, locks their channels, lets [`AlertPlan`] decide, and writes the
//! plan. If it fails, the events stay in the outbox.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sqlx::AssertSqlSafe;

use super::items::{DeliveryState, OutboxEvent, PlannedChannel, PlannedIncident};
use super::plan::AlertPlan;
use super::planned::{incident_columns, remove, write};
use super::rows::ChannelLock;
use crate::domain::alert::grouping::{GroupingRules, IncidentMember};
use crate::domain::ticket::HostKey;
use crate::domain::{ChannelId, DeliveryId, EventId, IncidentId, ScheduleId, Timestamp};
use crate::store::RelayResult;
use crate::store::corrupt_rows::{CorruptRows, ReadableRow};
use crate::store::sql;
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::encoding::batch_rows::{ColumnType, batch_row, json, json_ids};
use crate::store::sql::encoding::hex::Hex;
use crate::store::sql::error::SqlResult;
use crate::store::sql::history::old_rows::is_alone;

/// The maximum number of due incidents that one pass reads.
const INCIDENTS: i64 = 500;

pub(in crate::store) const EVENTS: &str = "
    SELECT id, account_id, schedule_id, job_id, type, at, host_key, failures, wanted, schedule_name
    FROM notification_events
    WHERE account_id NOT IN (SELECT id FROM deleted_accounts WHERE gone_at IS NULL)
    ORDER BY id LIMIT $1";

pub(in crate::store) const DUE_INCIDENTS: &str = "
    SELECT id, channel_id FROM notification_incidents
    WHERE due_at <= $1
      AND account_id NOT IN (SELECT id FROM deleted_accounts WHERE gone_at IS NULL)
    ORDER BY due_at LIMIT $2";

/// Plans the deliveries of at most `limit` events, and judges the incidents that are due.
pub(in crate::store) async fn relay(
    connection: &mut Connection<'_>,
    now: Timestamp,
    limit: u32,
    rules: GroupingRules,
    corrupt_rows: Arc<CorruptRows>,
) -> SqlResult<RelayResult> {
    if !is_alone(connection, "relay").await? {
        return Ok(RelayResult::default());
    }
    let query = sql::query_as(EVENTS).bind(i64::from(limit));
    let events: Vec<ReadableRow<EventId, OutboxEvent>> = query.fetch_all(&mut *connection).await?;
    let events = corrupt_rows.leave_out("notification_events", events);
    let mut plan = AlertPlan::new(now, rules);
    read(connection, &mut plan, &events).await?;
    plan.work_out(&events);
    write(connection, &plan).await?;
    remove(connection, "notification_events", "id", events.iter().map(|e| e.id.to_bytes())).await?;
    Ok(report(&plan, events.len()))
}

fn report(plan: &AlertPlan, events: usize) -> RelayResult {
    let states = plan.deliveries.iter().map(|planned| planned.state);
    let states = states.chain(plan.released.iter().map(|(_, state)| *state));
    let mut relayed = RelayResult {
        events: events as u64,
        opened: plan.opened,
        closed: plan.closed,
        merged: plan.merged_held,
        ..RelayResult::default()
    };
    for state in states {
        match state {
            DeliveryState::Due(_) => relayed.planned += 1,
            DeliveryState::Merged(_) => relayed.merged += 1,
            DeliveryState::NoChannel => relayed.undeliverable += 1,
            DeliveryState::Held(_) => {}
        }
    }
    relayed
}

/// Reads the rows that the plan needs, and locks the channels.
async fn read(
    connection: &mut Connection<'_>,
    plan: &mut AlertPlan,
    events: &[OutboxEvent],
) -> SqlResult<()> {
    let schedules: BTreeSet<ScheduleId> = events.iter().map(|event| event.schedule).collect();
    let audience: Vec<(ScheduleId, ChannelId)> = {
        let query = format!(
            "SELECT schedule_id, channel_id FROM preference_channels WHERE {}
             ORDER BY schedule_id, number",
            connection.dialect().among("schedule_id", ColumnType::Id, "$1")
        );
        let ids = json_ids(schedules.iter().map(|id| id.to_bytes()));
        sql::query_as(AssertSqlSafe(query)).bind(ids).fetch_all(&mut *connection).await?
    };
    let due: Vec<(IncidentId, ChannelId)> = {
        let query = sql::query_as(DUE_INCIDENTS).bind(plan.now).bind(INCIDENTS);
        query.fetch_all(&mut *connection).await?
    };
    let channels: BTreeSet<ChannelId> = audience
        .iter()
        .map(|(_, channel)| *channel)
        .chain(due.iter().map(|(_, channel)| *channel))
        .collect();
    plan.channels = lock_channels(connection, &channels).await?;
    for (schedule, channel) in audience {
        if plan.channels.contains_key(&channel) {
            plan.audience.entry(schedule).or_default().push(channel);
        }
    }
    read_incidents(connection, plan, &due, events).await?;
    read_members(connection, plan, events).await?;
    read_held(connection, plan).await
}

/// Returns, for each event, the channels that it may alert, with its host and its schedule.
fn alerted_channels<'p>(
    plan: &'p AlertPlan,
    events: &'p [OutboxEvent],
) -> impl Iterator<Item = (ChannelId, HostKey, ScheduleId)> {
    events.iter().flat_map(|event| {
        let channels = plan.audience.get(&event.schedule).into_iter().flatten();
        channels.map(|channel| (*channel, event.host, event.schedule))
    })
}

batch_row! {
    /// A channel and the host of an event that may alert it, as a row of a batch.
    HostRow { channel: Hex, host: i64 }
}

/// Locks the channels until the transaction ends, and returns those that are verified.
async fn lock_channels(
    connection: &mut Connection<'_>,
    channels: &BTreeSet<ChannelId>,
) -> SqlResult<BTreeMap<ChannelId, PlannedChannel>> {
    let in_turn = connection.dialect().exclusive_lock();
    let query = format!(
        "SELECT id, verified, paused_until, window_began, window_sent, digest_id
         FROM notification_channels WHERE {} ORDER BY id {in_turn}",
        connection.dialect().among("id", ColumnType::Id, "$1")
    );
    let ids = json_ids(channels.iter().map(|id| id.to_bytes()));
    let locked: Vec<ChannelLock> =
        sql::query_as(AssertSqlSafe(query)).bind(ids).fetch_all(connection).await?;
    let verified = locked.into_iter().filter(|lock| lock.verified);
    Ok(verified.map(|lock| (lock.id, lock.channel)).collect())
}

/// Reads the incidents that are due, and those that the events may belong to.
///
/// Their channels must be locked by now: a transaction that deletes a channel, or takes `verified`
/// away from it, also ends its incidents, so none of these is read.
async fn read_incidents(
    connection: &mut Connection<'_>,
    plan: &mut AlertPlan,
    due: &[(IncidentId, ChannelId)],
    events: &[OutboxEvent],
) -> SqlResult<()> {
    let hosts: BTreeSet<(ChannelId, HostKey)> =
        alerted_channels(plan, events).map(|(channel, host, _)| (channel, host)).collect();
    let row = |(channel, host): (ChannelId, HostKey)| HostRow {
        channel: Hex(channel.to_bytes()),
        host: host.0.cast_signed(),
    };
    let hosts: Vec<HostRow> = hosts.into_iter().map(row).collect();
    let query = sql::query_as(AssertSqlSafe(incidents_of(connection.dialect()))).bind(json(&hosts));
    let known: Vec<PlannedIncident> = query.fetch_all(&mut *connection).await?;
    let query = format!(
        "SELECT {} FROM notification_incidents WHERE {}",
        incident_columns(),
        connection.dialect().among("id", ColumnType::Id, "$1")
    );
    let due: Vec<PlannedIncident> = sql::query_as(AssertSqlSafe(query))
        .bind(json_ids(due.iter().map(|(id, _)| id.to_bytes())))
        .fetch_all(connection)
        .await?;
    let all = known.into_iter().chain(due);
    plan.incidents = all.map(|one| ((one.channel, one.host), one)).collect();
    Ok(())
}

/// Returns the statement that looks up the incidents of a batch, each by channel and host.
pub(in crate::store) fn incidents_of(dialect: Dialect) -> String {
    format!(
        "SELECT {} FROM {} CROSS JOIN notification_incidents
         WHERE channel_id = r.channel AND host_key = r.host",
        incident_columns(),
        dialect.rows::<HostRow>("$1")
    )
}

/// Reads which schedules of the events are already members of the incidents.
async fn read_members(
    connection: &mut Connection<'_>,
    plan: &mut AlertPlan,
    events: &[OutboxEvent],
) -> SqlResult<()> {
    let of = |(channel, host, schedule)| {
        let incident = plan.incidents.get(&(channel, host))?;
        Some(incident.id.member(schedule))
    };
    let members: BTreeSet<[u8; 16]> = alerted_channels(plan, events).filter_map(of).collect();
    if members.is_empty() {
        return Ok(());
    }
    let query = format!(
        "SELECT incident_id, schedule_id, failing FROM incident_schedules WHERE {}",
        connection.dialect().among("id", ColumnType::Id, "$1"),
    );
    let query = sql::query_as(AssertSqlSafe(query)).bind(json_ids(members));
    let members: Vec<(IncidentId, ScheduleId, bool)> = query.fetch_all(connection).await?;
    plan.members = members
        .into_iter()
        .map(|(incident, schedule, failing)| {
            let member = if failing { IncidentMember::Failing } else { IncidentMember::Recovered };
            ((incident, schedule), member)
        })
        .collect();
    Ok(())
}

/// Reads the deliveries that the due incidents hold.
async fn read_held(connection: &mut Connection<'_>, plan: &mut AlertPlan) -> SqlResult<()> {
    let due = plan.incidents.values().filter(|incident| incident.state.due_at <= plan.now);
    let due: Vec<[u8; 16]> = due.map(|incident| incident.id.to_bytes()).collect();
    if due.is_empty() {
        return Ok(());
    }
    let query = format!(
        "SELECT incident_id, id FROM notification_deliveries WHERE status = 0 AND {} ORDER BY id",
        connection.dialect().among("incident_id", ColumnType::Id, "$1")
    );
    let query = sql::query_as(AssertSqlSafe(query)).bind(json_ids(due));
    let held: Vec<(IncidentId, DeliveryId)> = query.fetch_all(connection).await?;
    for (incident, delivery) in held {
        plan.held.entry(incident).or_default().push(delivery);
    }
    Ok(())
}
