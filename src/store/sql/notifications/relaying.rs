//! Relaying: events become deliveries.
//!
//! One replica relays at a time, so that the alerts of a schedule are planned in their order. What is
//! read is locked, `AlertPlan` decides, and what it says is written; all in one transaction.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::AssertSqlSafe;

use super::planned::{incident_columns, remove, write};
use crate::domain::alert::grouping::{GroupingRules, Member};
use crate::domain::ticket::HostKey;
use crate::domain::{ChannelId, DeliveryId, EventId, IncidentId, ScheduleId, Timestamp};
use crate::store::Relayed;
use crate::store::corrupt_rows::{CorruptRows, ReadableRow};
use crate::store::sql;
use crate::store::sql::alert_items::{Event, PlannedChannel, PlannedIncident, Standing};
use crate::store::sql::alert_plan::AlertPlan;
use crate::store::sql::alert_rows::ChannelLock;
use crate::store::sql::batch_rows::{Of, batch_row, json, json_ids};
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::fault::Outcome;
use crate::store::sql::hex::Hex;
use crate::store::sql::maintenance::is_alone;

/// How many incidents are looked at in one pass.
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

/// Plans the deliveries of some events.
pub(in crate::store) async fn relay(
    connection: &mut Connection<'_>,
    now: Timestamp,
    limit: u32,
    rules: GroupingRules,
    corrupt_rows: &CorruptRows,
) -> Outcome<Relayed> {
    if !is_alone(connection, "relay").await? {
        return Ok(Relayed::default());
    }
    let query = sql::query_as(EVENTS).bind(i64::from(limit));
    let events: Vec<ReadableRow<EventId, Event>> = query.fetch_all(&mut *connection).await?;
    let events = corrupt_rows.leave_out("event", events);
    let mut plan = AlertPlan::new(now, rules);
    read(connection, &mut plan, &events).await?;
    plan.work_out(&events);
    write(connection, &plan).await?;
    remove(connection, "notification_events", "id", events.iter().map(|e| e.id.to_bytes())).await?;
    Ok(report(&plan, events.len()))
}

fn report(plan: &AlertPlan, events: usize) -> Relayed {
    let standings = plan.deliveries.iter().map(|planned| planned.standing);
    let standings = standings.chain(plan.released.iter().map(|(_, standing)| *standing));
    let mut relayed = Relayed {
        events: events as u64,
        opened: plan.opened,
        closed: plan.closed,
        merged: plan.merged_held,
        ..Relayed::default()
    };
    for standing in standings {
        match standing {
            Standing::Due(_) => relayed.planned += 1,
            Standing::Merged(_) => relayed.merged += 1,
            Standing::NoChannel => relayed.undeliverable += 1,
            Standing::Held(_) => {}
        }
    }
    relayed
}

async fn read(
    connection: &mut Connection<'_>,
    plan: &mut AlertPlan,
    events: &[Event],
) -> Outcome<()> {
    let schedules: BTreeSet<ScheduleId> = events.iter().map(|event| event.schedule).collect();
    let audience: Vec<(ScheduleId, ChannelId)> = {
        let query = format!(
            "SELECT schedule_id, channel_id FROM preference_channels WHERE {}
             ORDER BY schedule_id, number",
            connection.dialect().among("schedule_id", Of::Id, "$1")
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

/// The channels that are told of an event, with the schedule and the host that it is about.
fn told<'p>(
    plan: &'p AlertPlan,
    events: &'p [Event],
) -> impl Iterator<Item = (ChannelId, HostKey, ScheduleId)> {
    events.iter().flat_map(|event| {
        let channels = plan.audience.get(&event.schedule).into_iter().flatten();
        channels.map(|channel| (*channel, event.host, event.schedule))
    })
}

batch_row! {
    /// A host that a channel may be told of, as a row of a batch.
    HostRow { channel: Hex, host: i64 }
}

/// The channels that are verified, kept from being changed until all is written.
async fn lock_channels(
    connection: &mut Connection<'_>,
    channels: &BTreeSet<ChannelId>,
) -> Outcome<BTreeMap<ChannelId, PlannedChannel>> {
    let in_turn = connection.dialect().exclusive_lock();
    let query = format!(
        "SELECT id, verified, paused_until, window_began, window_sent, digest_id
         FROM notification_channels WHERE {} ORDER BY id {in_turn}",
        connection.dialect().among("id", Of::Id, "$1")
    );
    let ids = json_ids(channels.iter().map(|id| id.to_bytes()));
    let locked: Vec<ChannelLock> =
        sql::query_as(AssertSqlSafe(query)).bind(ids).fetch_all(connection).await?;
    let verified = locked.into_iter().filter(|lock| lock.verified);
    Ok(verified.map(|lock| (lock.id, lock.channel)).collect())
}

/// The incidents that are due, and those that events may be of. Read now that their channels are locked:
/// whoever has deleted one since, or taken `verified` away from it, has ended its incidents.
async fn read_incidents(
    connection: &mut Connection<'_>,
    plan: &mut AlertPlan,
    due: &[(IncidentId, ChannelId)],
    events: &[Event],
) -> Outcome<()> {
    let hosts: BTreeSet<(ChannelId, HostKey)> =
        told(plan, events).map(|(channel, host, _)| (channel, host)).collect();
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
        connection.dialect().among("id", Of::Id, "$1")
    );
    let due: Vec<PlannedIncident> = sql::query_as(AssertSqlSafe(query))
        .bind(json_ids(due.iter().map(|(id, _)| id.to_bytes())))
        .fetch_all(connection)
        .await?;
    let all = known.into_iter().chain(due);
    plan.incidents = all.map(|one| ((one.channel, one.host), one)).collect();
    Ok(())
}

/// The incidents of the hosts in a batch, each looked up by its key.
pub(in crate::store) fn incidents_of(dialect: Dialect) -> String {
    format!(
        "SELECT {} FROM {} CROSS JOIN notification_incidents
         WHERE channel_id = r.channel AND host_key = r.host",
        incident_columns(),
        dialect.rows::<HostRow>("$1")
    )
}

/// Which of the schedules are of the incidents that their events may be of.
async fn read_members(
    connection: &mut Connection<'_>,
    plan: &mut AlertPlan,
    events: &[Event],
) -> Outcome<()> {
    let of = |(channel, host, schedule)| {
        let incident = plan.incidents.get(&(channel, host))?;
        Some(incident.id.member(schedule))
    };
    let members: BTreeSet<[u8; 16]> = told(plan, events).filter_map(of).collect();
    if members.is_empty() {
        return Ok(());
    }
    let query = format!(
        "SELECT incident_id, schedule_id, failing FROM incident_schedules WHERE {}",
        connection.dialect().among("id", Of::Id, "$1"),
    );
    let query = sql::query_as(AssertSqlSafe(query)).bind(json_ids(members));
    let members: Vec<(IncidentId, ScheduleId, bool)> = query.fetch_all(connection).await?;
    plan.members = members
        .into_iter()
        .map(|(incident, schedule, failing)| {
            let member = if failing { Member::Failing } else { Member::Recovered };
            ((incident, schedule), member)
        })
        .collect();
    Ok(())
}

/// What the incidents hold that are due.
async fn read_held(connection: &mut Connection<'_>, plan: &mut AlertPlan) -> Outcome<()> {
    let due = plan.incidents.values().filter(|incident| incident.state.due_at <= plan.now);
    let due: Vec<[u8; 16]> = due.map(|incident| incident.id.to_bytes()).collect();
    if due.is_empty() {
        return Ok(());
    }
    let query = format!(
        "SELECT incident_id, id FROM notification_deliveries WHERE status = 0 AND {} ORDER BY id",
        connection.dialect().among("incident_id", Of::Id, "$1")
    );
    let query = sql::query_as(AssertSqlSafe(query)).bind(json_ids(due));
    let held: Vec<(IncidentId, DeliveryId)> = query.fetch_all(connection).await?;
    for (incident, delivery) in held {
        plan.held.entry(incident).or_default().push(delivery);
    }
    Ok(())
}
