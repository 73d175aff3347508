use std::time::Duration;

use punctual::domain::alert::AlertKind;
use punctual::domain::alert::delivery::{DeliveryError, DeliveryStatus};
use punctual::domain::alert::grouping::GroupingRules;
use punctual::domain::alert::policy::AlertPolicy;
use punctual::domain::plan::NotifyOn;
use punctual::domain::ticket::HostKey;
use punctual::domain::{ChannelId, ScheduleId, Timestamp};
use punctual::store::{AlertWork, AttemptEnd, ClaimedDelivery, DeliveryContent, NewPreference};

use super::world::{World, failure, minute};

const RULES: GroupingRules = GroupingRules {
    per_minute: 0,
    incident_schedules: 5,
    gather: Duration::from_millis(500),
    gather_most: Duration::from_secs(5),
    calm: Duration::from_secs(120),
    stale: Duration::from_secs(3_600),
    longest: Duration::from_secs(24 * 3_600),
};

fn seconds(minutes: i64, seconds: u64) -> Timestamp {
    minute(minutes).plus(Duration::from_secs(seconds))
}

/// Creates `count` schedules that alert a channel about failures and recoveries.
async fn schedules(w: &World, channel: ChannelId, count: usize) -> Vec<ScheduleId> {
    let mut ids = Vec::new();
    for n in 0..count {
        let id = w.schedule_with(|new| new.name = format!("schedule {n:03}")).await;
        let policy = AlertPolicy {
            notify_on: NotifyOn::Failure,
            notify_on_recovery: true,
            ..AlertPolicy::default()
        };
        w.tell(id, policy, &[channel]).await;
        ids.push(id);
    }
    ids
}

async fn fail(w: &World, ids: &[ScheduleId], at: Timestamp) {
    w.end_all(ids, at, &AttemptEnd::Failed(failure())).await;
}

async fn succeed(w: &World, ids: &[ScheduleId], at: Timestamp) {
    w.end_all(ids, at, &AttemptEnd::Succeeded).await;
}

/// Does all work between `from` and `to` when it is due. Returns the delivered alerts.
async fn deliver(w: &World, from: Timestamp, to: Timestamp) -> Vec<ClaimedDelivery> {
    let (mut now, mut arrived) = (from, Vec::new());
    loop {
        let work = w.work(now).await;
        if work.relay {
            w.relay(now, &RULES).await;
        } else if work.deliver {
            arrived.extend(w.deliver_due(now).await);
        } else {
            match work.next.filter(|next| *next <= to) {
                Some(next) => now = next,
                None => return arrived,
            }
        }
    }
}

fn kinds(arrived: &[ClaimedDelivery]) -> Vec<AlertKind> {
    arrived.iter().map(|one| one.kind).collect()
}

pub async fn a_host_that_is_down_is_reported_once_and_so_is_its_return(w: &World) {
    let channel = w.channel("ops").await;
    let ids = schedules(w, channel, 200).await;
    for (n, some) in ids.chunks(70).enumerate() {
        let at = seconds(2, 0).plus(Duration::from_millis(100 * n as u64));
        fail(w, some, at).await;
        w.relay(at, &RULES).await;
    }
    let pending = w.deliveries().await;
    assert_eq!(pending.len(), 200);
    assert!(pending.iter().all(|one| one.status == DeliveryStatus::Pending), "nothing is sent yet");
    assert!(pending.iter().all(|one| one.next_try_at.is_none() && one.completed_at.is_none()));
    let relayed = w.relay(seconds(2, 1), &RULES).await;
    assert_eq!((relayed.opened, relayed.planned, relayed.merged), (1, 1, 200));
    let arrived = deliver(w, seconds(2, 1), minute(3)).await;
    assert_eq!(kinds(&arrived), [AlertKind::IncidentOpened]);
    let opened = &arrived[0];
    let DeliveryContent::Incident(told) = &opened.content else { panic!("{opened:?}") };
    assert_eq!((told.schedules, told.failing, told.failures), (200, 200, 200));
    assert_eq!((told.host.as_str(), told.since, told.until), ("example.com", seconds(2, 0), None));
    assert!(told.error.as_deref().is_some_and(|error| error.contains("503")), "{told:?}");
    assert_eq!(told.names.len(), 5);

    // They fail again, some of them for the first time, and recover one after the other.
    let late = schedules(w, channel, 3).await;
    fail(w, &ids[..50], seconds(4, 0)).await;
    fail(w, &late, seconds(4, 1)).await;
    assert_eq!(deliver(w, seconds(4, 2), minute(5)).await, []);
    succeed(w, &ids, seconds(5, 0)).await;
    assert_eq!(deliver(w, seconds(5, 1), seconds(5, 30)).await, []);
    succeed(w, &late, seconds(5, 40)).await;
    let arrived = deliver(w, seconds(5, 41), minute(50)).await;
    assert_eq!(kinds(&arrived), [AlertKind::IncidentClosed]);
    let DeliveryContent::Incident(told) = &arrived[0].content else { panic!("{arrived:?}") };
    assert_eq!((told.schedules, told.failing, told.failures), (203, 0, 253));
    assert_eq!((told.since, told.until), (seconds(2, 0), Some(seconds(5, 41))));
    assert_eq!(told.error, None);

    let all = w.deliveries().await;
    let (own, merged): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.merged_into.is_none());
    assert_eq!((own.len(), merged.len()), (2, 253 + 203));
    assert!(own.iter().all(|one| one.status == DeliveryStatus::Delivered));
    for one in merged {
        assert_eq!((one.status, one.merged_into), (DeliveryStatus::Merged, Some(opened.id)));
        assert!(one.completed_at.is_some() && one.next_try_at.is_none());
    }
    assert_eq!(w.work(minute(500)).await, AlertWork::default(), "it is over");
    // The next failure gets its own alert.
    fail(w, &ids[..1], minute(60)).await;
    let arrived = deliver(w, seconds(60, 1), minute(62)).await;
    assert_eq!(kinds(&arrived), [AlertKind::JobFailed]);
}

pub async fn a_few_failures_are_sent_one_by_one(w: &World) {
    let channel = w.channel("ops").await;
    let ids = schedules(w, channel, 6).await;
    fail(w, &ids[..3], minute(2)).await;
    assert_eq!(w.relay(minute(2), &RULES).await.planned, 0);
    assert!(!w.work(minute(2)).await.deliver, "they are held for a moment");
    let arrived = deliver(w, minute(2), minute(3)).await;
    assert_eq!(kinds(&arrived), [AlertKind::JobFailed; 3]);
    let sent_at: Vec<_> = w.deliveries().await.iter().map(|one| one.tries[0].started_at).collect();
    assert_eq!(sent_at, [minute(2).plus(RULES.gather); 3]);
    // One keeps failing, one recovers.
    fail(w, &ids[..1], minute(4)).await;
    succeed(w, &ids[1..2], minute(4).plus(Duration::from_millis(1))).await;
    let arrived = deliver(w, seconds(4, 1), minute(5)).await;
    assert_eq!(kinds(&arrived), [AlertKind::JobFailed, AlertKind::ScheduleRecovered]);
    // With the two that still fail, five are failing.
    fail(w, &ids[3..], minute(6)).await;
    let arrived = deliver(w, minute(6), minute(7)).await;
    assert_eq!(kinds(&arrived), [AlertKind::IncidentOpened]);
    let DeliveryContent::Incident(told) = &arrived[0].content else { panic!("{arrived:?}") };
    assert_eq!((told.schedules, told.failing), (6, 5));
    let merged = w.deliveries().await.into_iter().filter(|one| one.merged_into.is_some());
    assert_eq!(merged.count(), 3, "sent alerts stay as they are");
    // Some recover and the others do not run. The incident closes after a while.
    succeed(w, &ids[3..5], minute(8)).await;
    let arrived = deliver(w, minute(8), minute(9)).await;
    assert_eq!(kinds(&arrived), [AlertKind::IncidentClosed]);
    let DeliveryContent::Incident(told) = &arrived[0].content else { panic!("{arrived:?}") };
    assert_eq!((told.schedules, told.failing), (6, 3));
    succeed(w, &ids, minute(70)).await;
    let arrived = deliver(w, minute(70), minute(71)).await;
    assert_eq!(kinds(&arrived), [AlertKind::ScheduleRecovered; 3], "no alert says that they have");
}

pub async fn hosts_and_channels_are_told_apart(w: &World) {
    let [a, b] = [w.channel("a").await, w.channel("b").await];
    let mut hosts = [Vec::new(), Vec::new()];
    for (host, ids) in hosts.iter_mut().enumerate() {
        for _ in 0..5 {
            let id = w.schedule_with(|new| new.version.host = HostKey(host as u64 + 1)).await;
            ids.push(id);
        }
    }
    // Only two schedules of the second host alert `a`.
    for (n, id) in hosts[0].iter().chain(&hosts[1]).enumerate() {
        let both = [a, b];
        w.tell_failures(*id, if n < 7 { &both } else { &both[1..] }).await;
    }
    for ids in &hosts {
        fail(w, ids, minute(2)).await;
    }
    let arrived = deliver(w, minute(2), minute(3)).await;
    let count = |channel, kind| {
        arrived.iter().filter(|one| one.channel == channel && one.kind == kind).count()
    };
    assert_eq!(count(a, AlertKind::IncidentOpened), 1);
    assert_eq!(count(a, AlertKind::JobFailed), 2);
    assert_eq!(count(b, AlertKind::IncidentOpened), 2);
    assert_eq!(arrived.len(), 5);
    // Recoveries also close an incident if no preference asks for them.
    for ids in &hosts {
        succeed(w, ids, minute(4)).await;
    }
    let arrived = deliver(w, minute(4), minute(5)).await;
    assert_eq!(kinds(&arrived), [AlertKind::IncidentClosed; 3]);
    assert_eq!(w.work(minute(900)).await, AlertWork::default());
}

pub async fn short_incidents_are_reported_in_order(w: &World) {
    let channel = w.channel("ops").await;
    let ids = schedules(w, channel, 5).await;
    fail(w, &ids, minute(2)).await;
    succeed(w, &ids, minute(2).plus(Duration::from_millis(1))).await;
    let arrived = deliver(w, seconds(2, 1), minute(3)).await;
    assert_eq!(kinds(&arrived), [AlertKind::IncidentOpened, AlertKind::IncidentClosed]);
    // These are too few for an incident: each failure and each recovery has its own alert.
    fail(w, &ids[..2], minute(4)).await;
    succeed(w, &ids[..2], minute(4).plus(Duration::from_millis(1))).await;
    let arrived = deliver(w, seconds(4, 1), minute(5)).await;
    let [failed, recovered] = [AlertKind::JobFailed, AlertKind::ScheduleRecovered];
    assert_eq!(kinds(&arrived), [failed, failed, recovered, recovered]);
    assert_eq!(w.work(minute(500)).await, AlertWork::default());
}

pub async fn the_same_schedule_fails_and_recovers_within_one_batch(w: &World) {
    let channel = w.channel("ops").await;
    let ids = schedules(w, channel, 5).await;
    for (at, ends, arrives) in [
        (2, [AttemptEnd::Failed(failure()), AttemptEnd::Succeeded], 2),
        (4, [AttemptEnd::Succeeded, AttemptEnd::Failed(failure())], 1),
        (6, [AttemptEnd::Failed(failure()), AttemptEnd::Succeeded], 1),
    ] {
        let mut batch = Vec::new();
        for id in &ids {
            let jobs = [w.manual_job(*id, minute(at)).await, w.manual_job(*id, minute(at)).await];
            let claimed = w.claim(minute(at), &jobs).await;
            for (job, end) in jobs.into_iter().zip(&ends) {
                let claimed = claimed.iter().find(|one| one.job == job).expect("claimed");
                batch.push(w.completion(claimed, None, end.clone()));
            }
        }
        w.commit(minute(at), &batch).await;
        let arrived = deliver(w, seconds(at, 0), minute(at + 1)).await;
        let [opened, closed] = [AlertKind::IncidentOpened, AlertKind::IncidentClosed];
        match (at, arrives) {
            (2, _) => assert_eq!(kinds(&arrived), [opened, closed]),
            (4, _) => assert_eq!(kinds(&arrived), [opened]),
            _ => assert_eq!(kinds(&arrived), [closed]),
        }
    }
    assert_eq!(w.work(minute(500)).await, AlertWork::default());
}

pub async fn gathered_events_of_a_lost_channel_fail(w: &World) {
    let [left, gone, fine] =
        [w.channel("left").await, w.channel("gone").await, w.channel("fine").await];
    let ids = schedules(w, fine, 5).await;
    let all = [left, gone, fine];
    for id in &ids {
        w.tell_failures(*id, &all).await;
    }
    fail(w, &ids, minute(2)).await;
    w.relay(minute(2), &RULES).await;
    assert!(w.store.unverify_channel(&w.write(minute(2)), left, "left").await.expect("unverify"));
    assert!(w.store.delete_channel(&w.write(minute(2)), gone).await.expect("delete"));
    let arrived = deliver(w, minute(2), minute(3)).await;
    assert_eq!(kinds(&arrived), [AlertKind::IncidentOpened]);
    assert_eq!(arrived[0].channel, fine);
    for (channel, code) in
        [(left, DeliveryError::ChannelUnverified), (gone, DeliveryError::ChannelDeleted)]
    {
        let all = w.deliveries().await;
        let failed: Vec<_> = all.iter().filter(|one| one.channel == Some(channel)).collect();
        assert_eq!(failed.len(), 5);
        assert!(failed.iter().all(|one| one.status == DeliveryStatus::Failed));
        assert!(failed.iter().all(|one| one.error_code == Some(code)), "{failed:?}");
    }
    // After it is verified again, the channel is alerted about the host as for the first time.
    w.verify(left).await;
    fail(w, &ids, minute(4)).await;
    let arrived = deliver(w, minute(4), minute(5)).await;
    let to: Vec<_> = arrived.iter().map(|one| (one.kind, one.channel)).collect();
    assert_eq!(to, [(AlertKind::IncidentOpened, left)]);
}

/// The channel is deleted or unverified while an incident is due, in several rounds.
pub async fn a_channel_that_is_lost_just_then_leaves_no_incident(w: &World) {
    let ids = schedules(w, w.channel("first").await, 5).await;
    for round in 0..6 {
        let channel = w.channel("ops").await;
        let policy = AlertPolicy { notify_on: NotifyOn::Failure, ..AlertPolicy::default() };
        for id in &ids {
            let new = NewPreference { policy, channels: vec![channel] };
            w.store.set_preference(&w.write(minute(1)), *id, &new).await.expect("set");
        }
        let at = 10 * (round + 1);
        fail(w, &ids, minute(at)).await;
        w.relay(minute(at), &RULES).await;
        let (store, write) = (w.store.clone(), w.write(minute(at)));
        let lost = w.spawn(async move {
            match round % 2 {
                0 => store.delete_channel(&write, channel).await.expect("delete"),
                _ => store.unverify_channel(&write, channel, "left").await.expect("unverify"),
            }
        });
        let (store, now) = (w.store.clone(), seconds(at, 1));
        let relayed = w.spawn(async move { store.relay(now, 9, &RULES).await.expect("relay") });
        assert!(lost.await);
        relayed.await;
        deliver(w, seconds(at, 1), seconds(at, 2)).await;
        let all = w.deliveries().await;
        let of = all.iter().filter(|one| one.channel == Some(channel));
        assert!(of.clone().count() >= 5);
        assert!(of.clone().all(|one| one.status != DeliveryStatus::Pending), "{all:?}");
        assert_eq!(w.work(minute(at + 1)).await, AlertWork::default(), "round {round}");
    }
}
