//! Tests of the plan.

use std::time::Duration;

use crate::domain::JobId;
use crate::domain::alert::grouping::{ChannelFlow, IncidentStage};
use crate::store::sql::notifications::plan::*;

const RULES: GroupingRules = GroupingRules {
    per_minute: 0,
    incident_schedules: 3,
    gather: Duration::from_millis(500),
    gather_most: Duration::from_secs(2),
    calm: Duration::from_secs(60),
    stale: Duration::from_secs(600),
    longest: Duration::from_secs(3_600),
};
const HOST: HostKey = HostKey(7);

fn ms(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn channel(n: u128) -> ChannelId {
    ChannelId::new(ms(0), n)
}

/// Returns an event of a schedule.
fn event(schedule: u8, kind: AlertKind, at: i64) -> OutboxEvent {
    let mut job = [schedule; 16];
    job[1] = u8::try_from(kind.as_str().len()).expect("short");
    let id = EventId::of(job, kind.as_str(), ms(at));
    OutboxEvent {
        id,
        account: AccountId::new(ms(0), 1),
        schedule: ScheduleId::from_bytes([schedule; 16]),
        job: JobId::from_bytes(job),
        kind,
        at: ms(at),
        host: HOST,
        failures: 1,
        wanted: true,
        schedule_name: format!("schedule {schedule}"),
    }
}

fn failed(schedule: u8, at: i64) -> OutboxEvent {
    event(schedule, AlertKind::JobFailed, at)
}

fn recovered(schedule: u8, at: i64) -> OutboxEvent {
    event(schedule, AlertKind::ScheduleRecovered, at)
}

fn verified() -> PlannedChannel {
    PlannedChannel {
        paused_until: ms(0),
        flow: ChannelFlow::default(),
        digest: None,
        changed: false,
    }
}

/// Returns a plan at `now` whose schedules alert one channel.
fn plan(now: i64, rules: GroupingRules) -> AlertPlan {
    let mut plan = AlertPlan::new(ms(now), rules);
    plan.channels.insert(channel(1), verified());
    for schedule in 0..9 {
        plan.audience.insert(ScheduleId::from_bytes([schedule; 16]), vec![channel(1)]);
    }
    plan
}

/// Returns the plan of the next pass, which reads the rows that `before` has written.
fn next(before: &AlertPlan, now: i64) -> AlertPlan {
    let mut next = plan(now, before.rules);
    for (id, channel) in &before.channels {
        let digest = channel.digest.filter(|_| channel.flow.has_digest);
        next.channels.insert(*id, PlannedChannel { digest, changed: false, ..*channel });
    }
    for (key, incident) in &before.incidents {
        let incident = PlannedIncident { changed: false, ..incident.clone() };
        if incident.state.due_at <= next.now {
            let held = before.deliveries.iter().filter_map(|planned| {
                (planned.state == DeliveryState::Held(incident.id)).then_some(planned.id)
            });
            next.held.insert(incident.id, held.collect());
        }
        next.incidents.insert(*key, incident);
    }
    next.members = before.members.clone();
    next
}

fn kinds(plan: &AlertPlan) -> Vec<AlertKind> {
    plan.deliveries.iter().map(|planned| planned.kind).collect()
}

fn states(plan: &AlertPlan) -> Vec<DeliveryState> {
    plan.deliveries.iter().map(|planned| planned.state).collect()
}

#[test]
fn an_unwanted_alert_leaves_nothing() {
    let mut plan = plan(1_000, RULES);
    let unwanted = |event| OutboxEvent { wanted: false, ..event };
    plan.audience.remove(&ScheduleId::from_bytes([2; 16]));
    plan.work_out(&[unwanted(recovered(1, 900)), unwanted(recovered(2, 900))]);
    assert!(plan.deliveries.is_empty() && plan.incidents.is_empty());
    plan.work_out(&[recovered(2, 900)]);
    assert_eq!(states(&plan), [DeliveryState::NoChannel]);
    assert_eq!(plan.deliveries[0].channel, None);
}

#[test]
fn deliveries_sort_as_they_were_planned() {
    let mut plan = plan(1_000, GroupingRules { per_minute: 2, ..RULES });
    let events: Vec<OutboxEvent> =
        (0..9).map(|schedule| event(schedule, AlertKind::JobSucceeded, 900)).collect();
    plan.work_out(&events);
    let ids: Vec<DeliveryId> = plan.deliveries.iter().map(|planned| planned.id).collect();
    assert_eq!(ids.len(), 10);
    assert!(ids.is_sorted_by(|a, b| a < b));
    let digest = plan.channels[&channel(1)].digest.expect("begun");
    let merged = |planned: &&PlannedDelivery| planned.state == DeliveryState::Merged(digest);
    assert_eq!(plan.deliveries.iter().filter(merged).count(), 7);
    assert_eq!(plan.deliveries[2].id, digest, "it begins with the first that is too much");
}

#[test]
fn a_channel_that_asked_for_a_pause_is_told_after_it() {
    let mut plan = plan(1_000, GroupingRules { per_minute: 1, ..RULES });
    let paused = PlannedChannel { paused_until: ms(90_000), ..verified() };
    plan.channels.insert(channel(1), paused);
    plan.work_out(&[
        event(1, AlertKind::JobSucceeded, 900),
        event(2, AlertKind::JobSucceeded, 900),
    ]);
    let due = DeliveryState::Due(ms(90_000));
    assert_eq!(states(&plan)[..2], [due, due], "and so is its digest");
}

#[test]
fn held_and_new_events_are_merged_alike() {
    let mut first = plan(1_000, RULES);
    first.work_out(&[failed(1, 900), failed(2, 901)]);
    let id = first.incidents[&(channel(1), HOST)].id;
    assert_eq!(states(&first), [DeliveryState::Held(id); 2]);
    assert_eq!((first.joined.len(), first.opened), (2, 0));

    let mut second = next(&first, 1_400);
    second.work_out(&[failed(3, 1_300)]);
    assert_eq!(states(&second), [DeliveryState::Held(id)]);
    // The incident is due, and one more failure arrives in the same pass: it is merged too.
    let mut third = next(&second, 1_900);
    third.held.insert(id, vec![first.deliveries[0].id, second.deliveries[0].id]);
    third.work_out(&[failed(4, 1_850)]);
    assert_eq!(kinds(&third), [AlertKind::IncidentOpened, AlertKind::JobFailed]);
    let opening = third.deliveries[0].id;
    assert_eq!(states(&third), [DeliveryState::Due(ms(1_900)), DeliveryState::Merged(opening)]);
    assert_eq!((third.opened, third.merged_held), (1, 2));
    assert_eq!(third.merged, [(id, AccountId::new(ms(0), 1), opening)]);
    let known = &third.incidents[&(channel(1), HOST)];
    assert_eq!((known.opening, known.state.stage), (Some(opening), IncidentStage::Open));
    assert_eq!((known.state.schedules, known.names.len()), (4, 4));
}

#[test]
fn too_few_are_released_through_the_flow_of_the_channel() {
    let rules = GroupingRules { per_minute: 1, ..RULES };
    let mut first = plan(1_000, rules);
    first.work_out(&[failed(1, 900), failed(2, 901)]);
    let mut second = next(&first, 1_500);
    second.work_out(&[]);
    assert_eq!(kinds(&second), [AlertKind::Digest]);
    let digest = second.deliveries[0].id;
    let [a, b] = &second.released[..] else { panic!("{:?}", second.released) };
    assert_eq!((a.0, a.1), (first.deliveries[0].id, DeliveryState::Due(ms(1_500))));
    assert_eq!((b.0, b.1), (first.deliveries[1].id, DeliveryState::Merged(digest)));
    // The alert about an incident counts against the limit of the channel, too.
    let mut third = next(&second, 2_000);
    third.work_out(&[failed(3, 1_900), failed(4, 1_900)]);
    let mut fourth = next(&third, 2_500);
    fourth.work_out(&[]);
    assert_eq!(kinds(&fourth), [AlertKind::IncidentOpened]);
    assert_eq!(states(&fourth), [DeliveryState::Merged(digest)]);
    let opening = fourth.deliveries[0].id;
    assert_eq!(fourth.incidents[&(channel(1), HOST)].opening, Some(opening));
}

#[test]
fn a_failure_after_an_incident_that_was_not_checked_is_reported_anew() {
    let mut first = plan(1_000, RULES);
    first.work_out(&[failed(1, 900), failed(2, 900), failed(3, 900)]);
    let mut second = next(&first, 1_500);
    second.work_out(&[]);
    assert_eq!(kinds(&second), [AlertKind::IncidentOpened]);
    let before = second.incidents[&(channel(1), HOST)].id;
    // All notifiers were down, and the incident became stale meanwhile.
    let mut third = next(&second, 700_000);
    third.work_out(&[failed(1, 699_000)]);
    let now = &third.incidents[&(channel(1), HOST)];
    assert_ne!(now.id, before);
    assert_eq!(third.ended.iter().copied().collect::<Vec<_>>(), [before]);
    assert_eq!(states(&third), [DeliveryState::Held(now.id)]);
    assert!(third.joined.keys().all(|(incident, _)| *incident == now.id));
}

#[test]
fn a_recovery_closes_it_at_once_and_the_next_failure_begins_another() {
    let mut first = plan(1_000, RULES);
    first.work_out(&[failed(1, 900), failed(2, 900), failed(3, 900)]);
    let mut second = next(&first, 1_500);
    second.work_out(&[]);
    let opening = second.deliveries[0].id;
    let mut third = next(&second, 9_000);
    let unwanted = OutboxEvent { wanted: false, ..recovered(3, 8_000) };
    third.work_out(&[recovered(1, 8_000), recovered(2, 8_000), unwanted, failed(4, 8_500)]);
    let expected = [
        AlertKind::ScheduleRecovered,
        AlertKind::ScheduleRecovered,
        AlertKind::IncidentClosed,
        AlertKind::JobFailed,
    ];
    assert_eq!(kinds(&third), expected);
    assert_eq!(states(&third)[..2], [DeliveryState::Merged(opening); 2]);
    assert_eq!((third.closed, third.ended.len(), third.incidents.len()), (1, 1, 1));
    // A schedule that fails, recovers and fails again counts once in the incident.
    let mut fourth = next(&third, 9_100);
    fourth.work_out(&[recovered(4, 9_050), failed(4, 9_060)]);
    let known = &fourth.incidents[&(channel(1), HOST)];
    assert_eq!((known.state.schedules, known.state.failing), (1, 1));
    assert_eq!(known.names, ["schedule 4"]);
}

#[test]
fn others_recover_by_themselves() {
    let mut first = plan(1_000, RULES);
    first.work_out(&[failed(1, 900)]);
    let mut second = next(&first, 1_500);
    second.work_out(&[recovered(5, 1_400)]);
    assert_eq!(states(&second), [DeliveryState::Due(ms(1_500))], "it was not of the incident");
    // An incident in stage `Watching` ends when its only schedule recovers.
    let mut third = next(&second, 3_000);
    third.work_out(&[recovered(1, 2_900)]);
    assert_eq!(states(&third), [DeliveryState::Due(ms(3_000))]);
    assert!(third.incidents.is_empty() && third.ended.len() == 1);
}

#[test]
fn without_incidents_each_goes_its_own_way() {
    let mut plan = plan(1_000, GroupingRules { incident_schedules: 0, ..RULES });
    plan.work_out(&[failed(1, 900), failed(2, 900), failed(3, 900), recovered(1, 950)]);
    assert_eq!(states(&plan), [DeliveryState::Due(ms(1_000)); 4]);
    assert!(plan.incidents.is_empty());
}
