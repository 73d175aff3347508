use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use punctual::domain::alert::delivery::{DeliveryError, DeliveryStatus};
use punctual::domain::audit::Action;
use punctual::domain::plan::ChannelType;
use punctual::domain::{ChannelId, DeliveryId, ScheduleId, Timestamp};
use punctual::store::{
    AuditQuery, ChannelChange, ChannelChanged, ClaimedDelivery, Delivery, DeliveryClaim,
    DeliveryQuery, ExecutorId, Redelivered, StoreErrorKind, TryEnd, TryOutcome,
};

use super::alerts::{CLAIM, ONE_BY_ONE, try_end};
use super::channels::config;
use super::world::{World, minute};

/// Returns a failure that may be retried.
fn failed(retry_at: Option<Timestamp>) -> TryOutcome {
    TryOutcome::Failed {
        code: DeliveryError::Timeout,
        message: "no answer".into(),
        retry_at,
        paused_until: None,
        gone: false,
    }
}

/// Creates a channel with `count` waiting deliveries about failures of one schedule, since `at`.
async fn waiting(w: &World, label: &str, count: usize, at: Timestamp) -> (ChannelId, ScheduleId) {
    let (channel, id) = (w.channel(label).await, w.schedule().await);
    w.tell_failures(id, &[channel]).await;
    w.fail_often(id, count, at).await;
    w.relay(at, &ONE_BY_ONE).await;
    (channel, id)
}

async fn complete(w: &World, now: Timestamp, ends: &[TryEnd]) -> Vec<bool> {
    w.store.complete_tries(now, ends).await.expect("complete")
}

async fn read(w: &World, id: DeliveryId) -> Delivery {
    w.store.delivery(w.account, id).await.expect("read").expect("a delivery")
}

/// Claims with these limits, without faults: a repeated call would claim more.
async fn take(w: &World, limit: u32, per_channel: u32, busy: &[ChannelId]) -> Vec<ClaimedDelivery> {
    let busy = busy.to_vec();
    let claim = DeliveryClaim { limit, per_channel, busy, ..w.delivery_claim(minute(200)) };
    w.steady.claim_deliveries(&claim).await.expect("claim").taken
}

pub async fn one_of_many_claimers_gets_each(w: &World) {
    for label in ["a", "b", "c"] {
        waiting(w, label, 40, minute(2)).await;
    }
    let claims = (0..8).map(|n| {
        let store = w.store.clone();
        let claim = DeliveryClaim {
            notifier: ExecutorId(n),
            limit: 20,
            per_channel: 9,
            ..w.delivery_claim(minute(3))
        };
        w.spawn(async move { store.claim_deliveries(&claim).await.expect("claim").taken })
    });
    let mut taken: Vec<_> = join_all(claims).await.into_iter().flatten().collect();
    loop {
        let more = w.claim_due(minute(3)).await.taken;
        if more.is_empty() {
            break;
        }
        taken.extend(more);
    }
    let ids: BTreeSet<_> = taken.iter().map(|one| one.id).collect();
    assert_eq!((taken.len(), ids.len()), (120, 120));
    assert!(taken.iter().all(|one| one.attempt == 1));
}

pub async fn claims_are_bounded_and_fair(w: &World) {
    let (flood, _) = waiting(w, "flood", 5_000, minute(100)).await;
    let (quiet, _) = waiting(w, "quiet", 3, minute(101)).await;
    let count = |taken: &[ClaimedDelivery]| {
        let of = |channel| taken.iter().filter(|one| one.channel == channel).count();
        (of(flood), of(quiet))
    };
    assert_eq!(count(&take(w, 2, 9, &[]).await), (2, 0), "the oldest first");
    assert_eq!(count(&take(w, 100, 4, &[flood]).await), (0, 3), "it is not hidden");
    assert_eq!(count(&take(w, 100, 4, &[]).await), (4, 0));
    assert_eq!(count(&take(w, 100, 4, &[flood, quiet]).await), (0, 0));
    let (other, _) = waiting(w, "other", 30, minute(100)).await;
    let taken = take(w, 100, 10, &[flood]).await;
    assert_eq!(taken.iter().filter(|one| one.channel == other).count(), 10);
    assert_eq!(take(w, 0, 10, &[]).await, []);
}

pub async fn accounts_and_types_get_their_share(w: &World) {
    // More deliveries than one pass looks at.
    let (flood, _) = waiting(w, "flood", 2_500, minute(100)).await;
    let (other, _) = waiting(w, "other", 9, minute(101)).await;
    let limits = w.delivery_claim(minute(200));
    let claim = async |claim: DeliveryClaim| {
        let taken = w.steady.claim_deliveries(&claim).await.expect("claim").taken;
        let of = |channel| taken.iter().filter(|one| one.channel == channel).count();
        (of(flood), of(other))
    };
    let busy = DeliveryClaim { busy_accounts: vec![w.account], ..limits.clone() };
    assert_eq!(claim(busy).await, (0, 0));
    let none = DeliveryClaim { per_type: vec![(ChannelType::Slack, 0)], ..limits.clone() };
    assert_eq!(claim(none).await, (0, 0));
    let few = DeliveryClaim { per_channel: 4, per_account: 6, ..limits.clone() };
    assert_eq!(claim(few).await, (4, 2));
    let few =
        DeliveryClaim { per_channel: 4, per_type: vec![(ChannelType::Slack, 5)], ..limits.clone() };
    assert_eq!(claim(few).await, (4, 1));
    let all = DeliveryClaim { per_channel: 9, per_type: vec![(ChannelType::Slack, 100)], ..limits };
    assert_eq!(claim(all).await, (9, 6));
}

pub async fn a_result_for_an_old_configuration_does_not_count_for_the_new_one(w: &World) {
    let (channel, _) = waiting(w, "ops", 2, minute(2)).await;
    let taken = take_at(w, minute(3), 2).await;
    let stored = w.stored(channel).await;
    let change = ChannelChange { config: Some(config("anew")), ..ChannelChange::default() };
    let write = w.write(minute(3));
    let changed = w.store.change_channel(&write, channel, stored.revision, &change);
    assert_eq!(changed.await.expect("change"), ChannelChanged::Done);
    w.verify(channel).await;
    let until = minute(60);
    let outcomes = [
        (DeliveryError::ChannelGone, None, true),
        (DeliveryError::RateLimited, Some(until), false),
    ];
    for (claimed, (why, pause, is_gone)) in taken.iter().zip(outcomes) {
        let mut end = try_end(claimed, minute(4), failed(None));
        if let TryOutcome::Failed { code, paused_until, gone, .. } = &mut end.outcome {
            (*code, *paused_until, *gone) = (why, pause, is_gone);
        }
        assert_eq!(complete(w, minute(4), &[end]).await, [true]);
        assert_eq!(read(w, claimed.id).await.error_code, Some(why));
    }
    assert!(w.stored(channel).await.channel.verified);
    let (schedule, at) = (w.schedule().await, minute(5));
    w.tell_failures(schedule, &[channel]).await;
    w.fail(schedule, 5).await;
    w.relay(at, &ONE_BY_ONE).await;
    assert_eq!(w.claim_due(at).await.taken.len(), 1, "nothing is paused");
}

pub async fn a_channel_with_very_much_to_do_hides_no_other(w: &World) {
    // More deliveries than one pass looks at.
    let (flood, _) = waiting(w, "flood", 2_500, minute(100)).await;
    let (quiet, _) = waiting(w, "quiet", 1, minute(101)).await;
    let taken = take(w, 100, 4, &[]).await;
    let of = |channel| taken.iter().filter(|one| one.channel == channel).count();
    assert_eq!((of(flood), of(quiet)), (4, 1));
}

pub async fn a_try_that_is_lost_is_recorded_and_made_again(w: &World) {
    let (_, _) = waiting(w, "ops", 1, minute(2)).await;
    let mut now = minute(3);
    let mut id = None;
    for attempt in 1..=5 {
        let early = now.minus(Duration::from_millis(1));
        if attempt > 1 {
            assert!(w.claim_due(early).await.taken.is_empty(), "it may be under way");
        }
        let claimed = w.claim_due(now).await.taken.remove(0);
        assert_eq!((claimed.attempt, claimed.attempt_of_round), (attempt, attempt));
        assert_eq!(claimed.round_began, minute(3));
        let seen = read(w, claimed.id).await;
        assert_eq!((seen.status, seen.tries_made), (DeliveryStatus::Pending, attempt));
        assert_eq!(seen.next_try_at, None, "one is under way");
        assert_eq!(seen.tries.len(), usize::from(attempt) - 1);
        for (made, number) in seen.tries.iter().zip(1..) {
            assert_eq!((made.number, made.error_code), (number, Some(DeliveryError::NotifierLost)));
            let began = minute(3).plus(CLAIM * (u32::from(number) - 1));
            assert_eq!((made.started_at, made.completed_at), (began, began.plus(CLAIM)));
        }
        if attempt > 1 {
            assert_eq!(seen.error_code, Some(DeliveryError::NotifierLost), "why the last failed");
        }
        id = Some(claimed.id);
        now = now.plus(CLAIM);
    }
    let last = w.claim_due(now).await;
    assert_eq!((last.taken.len(), last.undeliverable), (0, 1));
    let seen = read(w, id.expect("claimed")).await;
    assert_eq!((seen.status, seen.tries_made, seen.tries.len()), (DeliveryStatus::Failed, 5, 5));
    assert_eq!(seen.error_code, Some(DeliveryError::NotifierLost));
    assert_eq!((seen.completed_at, seen.next_try_at), (Some(now), None));
    assert_eq!(w.claim_due(minute(99)).await.taken, []);
}

pub async fn claims_of_a_process_that_was_alone_end_at_once(w: &World) {
    waiting(w, "ops", 3, minute(2)).await;
    assert_eq!(w.claim_due(minute(3)).await.taken.len(), 3);
    assert_eq!(w.store.release_deliveries(minute(3)).await.expect("release"), 3);
    assert_eq!(w.store.release_deliveries(minute(3)).await.expect("release"), 0);
    let again = w.claim_due(minute(3)).await.taken;
    assert_eq!(again.len(), 3);
    assert!(again.iter().all(|one| one.attempt == 2));
}

pub async fn an_end_takes_effect_under_its_claim_only(w: &World) {
    waiting(w, "ops", 4, minute(2)).await;
    let taken = w.claim_due(minute(3)).await.taken;
    let [arrives, fails, lost, late] = &taken[..] else { panic!("four") };
    let fine = |claimed| try_end(claimed, minute(3), TryOutcome::Delivered);
    let wrong = [
        TryEnd { notifier: ExecutorId(8), ..fine(arrives) },
        TryEnd { attempt: 2, ..fine(arrives) },
        TryEnd { attempt: 0, ..fine(arrives) },
        TryEnd { delivery: DeliveryId::new(minute(1), 1), ..fine(arrives) },
    ];
    assert_eq!(complete(w, minute(3), &wrong).await, [false; 4]);
    assert_eq!(read(w, arrives.id).await.status, DeliveryStatus::Pending);
    assert_eq!(complete(w, minute(3), &[]).await, [false; 0]);

    let mut end = fine(fails);
    end.outcome = failed(None);
    (end.status_code, end.response) = (None, Some("nul \0 in it".into()));
    let ends = [fine(arrives), wrong[0].clone(), end];
    assert_eq!(complete(w, minute(3), &ends).await, [true, false, true]);
    assert_eq!(complete(w, minute(4), &ends).await, [false; 3], "once");
    let seen = read(w, arrives.id).await;
    let ended = Some(minute(3).plus(Duration::from_millis(20)));
    assert_eq!((seen.status, seen.completed_at), (DeliveryStatus::Delivered, ended));
    assert_eq!((seen.status_code, seen.error_code, seen.error_message), (Some(200), None, None));
    let [made] = &seen.tries[..] else { panic!("{:?}", seen.tries) };
    assert_eq!((made.number, made.started_at), (1, minute(3)));
    assert_eq!(Some(made.completed_at), ended);
    assert_eq!((made.status_code, made.response.as_deref()), (Some(200), Some("ok")));
    let seen = read(w, fails.id).await;
    assert_eq!((seen.status, seen.completed_at), (DeliveryStatus::Failed, ended));
    assert_eq!((seen.status_code, seen.error_code), (None, Some(DeliveryError::Timeout)));
    assert_eq!(seen.error_message.as_deref(), Some("no answer"));
    assert_eq!(seen.tries[0].response.as_deref(), Some("nul \u{fffd} in it"));

    // The try took longer than its claim, but no other notifier has claimed the delivery.
    assert_eq!(complete(w, minute(30), &[fine(late)]).await, [true]);
    // Now another notifier has claimed it.
    let again = w.claim_due(minute(31)).await.taken.remove(0);
    assert_eq!((again.id, again.attempt), (lost.id, 2));
    assert_eq!(complete(w, minute(31), &[fine(lost)]).await, [false]);
    let end = try_end(&again, minute(31), TryOutcome::Delivered);
    assert_eq!(complete(w, minute(31), &[end]).await, [true]);
    let seen = read(w, lost.id).await;
    assert_eq!((seen.status, seen.error_code), (DeliveryStatus::Delivered, None));
    let codes: Vec<_> = seen.tries.iter().map(|made| made.error_code).collect();
    assert_eq!(codes, [Some(DeliveryError::NotifierLost), None]);
}

pub async fn a_failed_try_waits_for_its_time(w: &World) {
    let (channel, _) = waiting(w, "ops", 3, minute(2)).await;
    let (other, _) = waiting(w, "other", 1, minute(2)).await;
    let taken = w.claim_due(minute(3)).await.taken;
    let of: Vec<_> = taken.iter().filter(|one| one.channel == channel).collect();
    let [first, second, third] = of[..] else { panic!("three") };
    let beside = taken.iter().find(|one| one.channel == other).expect("claimed");
    let ends = [
        try_end(first, minute(3), failed(Some(minute(5)))),
        try_end(beside, minute(3), failed(Some(minute(4)))),
    ];
    assert_eq!(complete(w, minute(3), &ends).await, [true; 2]);
    let seen = read(w, first.id).await;
    assert_eq!((seen.status, seen.next_try_at), (DeliveryStatus::Pending, Some(minute(5))));
    assert_eq!((seen.error_code, seen.completed_at), (Some(DeliveryError::Timeout), None));
    assert_eq!(w.work(minute(3)).await.next, Some(minute(3).plus(CLAIM)));

    // The provider asks for a pause of one hour. All waiting deliveries to it wait until then;
    // running ones are not held back.
    let until = minute(63);
    let asks = |claimed| {
        let mut end = try_end(claimed, minute(3), failed(Some(until)));
        if let TryOutcome::Failed { code, paused_until, .. } = &mut end.outcome {
            (*code, *paused_until) = (DeliveryError::RateLimited, Some(until));
        }
        end
    };
    assert_eq!(complete(w, minute(3), &[asks(second)]).await, [true]);
    assert_eq!(read(w, first.id).await.next_try_at, Some(until));
    assert_eq!(read(w, beside.id).await.next_try_at, Some(minute(4)), "another channel");
    assert_eq!(
        complete(w, minute(3), &[try_end(third, minute(3), TryOutcome::Delivered)]).await,
        [true]
    );
    // Deliveries that are planned in the meantime wait, too.
    let late = w.schedule().await;
    w.tell_failures(late, &[channel, other]).await;
    w.fail(late, 10).await;
    w.relay(minute(11), &ONE_BY_ONE).await;
    let due: Vec<_> = w.claim_due(minute(62)).await.taken.iter().map(|one| one.channel).collect();
    assert_eq!(due, [other, other]);
    assert_eq!(
        w.claim_due(until).await.taken.iter().filter(|one| one.channel == channel).count(),
        3
    );
    // After the channel is verified again, no delivery waits any more.
    w.verify(channel).await;
    w.fail(late, 20).await;
    w.relay(minute(21), &ONE_BY_ONE).await;
    let due = w.claim_due(minute(21)).await.taken;
    assert!(due.iter().any(|one| one.channel == channel));
}

pub async fn a_channel_whose_destination_is_gone_loses_verified(w: &World) {
    let (channel, schedule) = waiting(w, "ops", 3, minute(2)).await;
    let taken = take_at(w, minute(3), 2).await;
    let [first, second] = &taken[..] else { panic!("two: {taken:?}") };
    let gone = |claimed| {
        let mut end = try_end(claimed, minute(3), failed(None));
        if let TryOutcome::Failed { code, message, gone, .. } = &mut end.outcome {
            (*code, *gone) = (DeliveryError::ChannelGone, true);
            *message = "the webhook was removed".into();
        }
        end
    };
    assert_eq!(complete(w, minute(3), &[gone(first)]).await, [true]);
    assert!(!w.stored(channel).await.channel.verified);
    let preference = w.store.preference(w.account, schedule).await.expect("read").expect("there");
    assert_eq!(preference.channels[0].trouble.as_deref(), Some("the webhook was removed"));
    let entries = async || {
        let action = Some(Action::ChannelUnverified);
        let query = AuditQuery { from: None, to: None, actor: None, action, after: None, limit: 9 };
        w.store.audit_log(w.account, &query).await.expect("list").entries.len()
    };
    assert_eq!(entries().await, 1);
    // A running delivery may end in any way. Waiting ones fail.
    assert_eq!(complete(w, minute(3), &[gone(second)]).await, [true]);
    assert_eq!(entries().await, 1);
    let claimed = w.claim_due(minute(3)).await;
    assert_eq!((claimed.taken.len(), claimed.undeliverable), (0, 1));
    let codes: Vec<_> = w.deliveries().await.iter().map(|one| one.error_code).collect();
    let count = |code| codes.iter().filter(|found| **found == Some(code)).count();
    assert_eq!(count(DeliveryError::ChannelGone), 2);
    assert_eq!(count(DeliveryError::ChannelUnverified), 1);
}

/// Claims at most `limit` deliveries.
async fn take_at(w: &World, now: Timestamp, limit: u32) -> Vec<ClaimedDelivery> {
    let claim = DeliveryClaim { limit, ..w.delivery_claim(now) };
    w.steady.claim_deliveries(&claim).await.expect("claim").taken
}

pub async fn a_failed_one_is_delivered_again(w: &World) {
    let (channel, schedule) = waiting(w, "ops", 2, minute(2)).await;
    let taken = w.claim_due(minute(3)).await.taken;
    let (failing, fine) = (taken[0].id, taken[1].id);
    let redeliver = async |account, id| {
        let write = w.write_for(account, minute(9));
        w.store.redeliver(&write, id).await.expect("redeliver")
    };
    assert_eq!(redeliver(w.account, failing).await, Redelivered::NotFailed, "it is under way");
    let ends = [
        try_end(&taken[0], minute(3), failed(None)),
        try_end(&taken[1], minute(3), TryOutcome::Delivered),
    ];
    assert_eq!(complete(w, minute(3), &ends).await, [true; 2]);
    assert_eq!(redeliver(w.foreign, failing).await, Redelivered::NotFound);
    assert_eq!(redeliver(w.account, DeliveryId::new(minute(0), 1)).await, Redelivered::NotFound);
    assert_eq!(redeliver(w.account, fine).await, Redelivered::NotFailed);
    assert_eq!(redeliver(w.account, failing).await, Redelivered::Done);
    let seen = read(w, failing).await;
    assert_eq!((seen.status, seen.next_try_at), (DeliveryStatus::Pending, Some(minute(9))));
    assert_eq!((seen.tries_made, seen.tries.len()), (1, 1), "the earlier try is kept");
    assert_eq!((seen.completed_at, seen.error_code), (None, None));
    // Five more tries.
    let mut now = minute(10);
    for n in 1..=5 {
        let claimed = w.claim_due(now).await.taken.remove(0);
        assert_eq!((claimed.attempt, claimed.attempt_of_round), (n + 1, n));
        assert_eq!(claimed.round_began, minute(10), "counted anew");
        now = now.plus(CLAIM);
    }
    assert_eq!(w.claim_due(now).await.undeliverable, 1);
    assert_eq!(read(w, failing).await.tries.len(), 6);

    w.store.unverify_channel(&w.write(minute(20)), channel, "x").await.expect("unverify");
    assert_eq!(redeliver(w.account, failing).await, Redelivered::Unverified);
    w.verify(channel).await;
    assert_eq!(redeliver(w.account, failing).await, Redelivered::Done);
    let claimed = w.claim_due(minute(30)).await.taken.remove(0);
    assert_eq!((claimed.attempt, claimed.attempt_of_round), (7, 1));
    let end = try_end(&claimed, minute(30), failed(None));
    assert_eq!(complete(w, minute(30), &[end]).await, [true]);
    assert!(w.store.delete_channel(&w.write(minute(31)), channel).await.expect("delete"));
    assert_eq!(redeliver(w.account, failing).await, Redelivered::NoChannel);
    w.fail(schedule, 32).await;
    w.relay(minute(33), &ONE_BY_ONE).await;
    let none = w.deliveries().await.pop().expect("recorded");
    assert_eq!(redeliver(w.account, none.id).await, Redelivered::NoChannel);
    let action = Some(Action::AlertRedelivered);
    let query = AuditQuery { from: None, to: None, actor: None, action, after: None, limit: 9 };
    let log = w.store.audit_log(w.account, &query).await.expect("list").entries;
    assert_eq!(log.len(), 2);
    assert!(log.iter().all(|entry| entry.object == failing.to_string()));
    assert!(w.store.set_suspended(&w.write(minute(40)), true).await.expect("suspend"));
    let refused = w.store.redeliver(&w.write(minute(41)), failing).await.expect_err("refused");
    assert_eq!(refused.kind(), StoreErrorKind::Suspended);
}

pub async fn a_delivery_can_be_redelivered_repeatedly(w: &World) {
    waiting(w, "ops", 1, minute(2)).await;
    for round in 0..60 {
        let now = minute(3 + round);
        let claimed = w.claim_due(now).await.taken.remove(0);
        assert_eq!(claimed.attempt_of_round, 1);
        let end = try_end(&claimed, now, failed(None));
        assert_eq!(complete(w, now, &[end]).await, [true]);
        let again = w.store.redeliver(&w.write(now), claimed.id).await.expect("redeliver");
        assert_eq!(again, Redelivered::Done);
        // Lost tries count, too.
        for n in 0..4 {
            let now = now.plus(Duration::from_secs(10 + n));
            let claim = DeliveryClaim { until: now, ..w.delivery_claim(now) };
            assert_eq!(w.steady.claim_deliveries(&claim).await.expect("claim").taken.len(), 1);
        }
        let now = now.plus(Duration::from_secs(20));
        let claimed = w.claim_due(now).await.taken.remove(0);
        let end = try_end(&claimed, now, failed(None));
        assert_eq!(complete(w, now, &[end]).await, [true]);
        assert!(read(w, claimed.id).await.tries.len() <= 255);
        let again = w.store.redeliver(&w.write(now), claimed.id).await.expect("redeliver");
        assert_eq!(again, Redelivered::Done);
    }
}

pub async fn they_are_listed_newest_first_in_pages(w: &World) {
    let [(a, of_a), _, (_, alone)] = few(w).await;
    let list =
        async |query: DeliveryQuery| w.store.deliveries(w.account, &query).await.expect("list");
    let all = DeliveryQuery { limit: 100, ..DeliveryQuery::default() };
    let whole = list(all.clone()).await;
    assert_eq!((whole.deliveries.len(), whole.total, whole.has_more), (10, 10, false));
    let ids: Vec<_> = whole.deliveries.iter().map(|one| one.id).collect();
    assert!(ids.is_sorted_by(|a, b| a > b));
    assert_eq!(whole.deliveries[0].schedule, Some(alone));
    for one in &whole.deliveries {
        assert_eq!(&read(w, one.id).await, one);
    }
    // Pages by cursor and by number.
    let (mut after, mut paged) = (None, Vec::new());
    loop {
        let page = list(DeliveryQuery { after, limit: 3, ..all.clone() }).await;
        assert_eq!(page.total, 10);
        after = page.deliveries.last().map(|one| one.id);
        paged.extend(page.deliveries);
        if !page.has_more {
            break;
        }
    }
    assert_eq!(paged, whole.deliveries);
    let page = list(DeliveryQuery { offset: 8, limit: 5, ..all.clone() }).await;
    assert_eq!((&page.deliveries[..], page.total), (&whole.deliveries[8..], 10));
    let page = list(DeliveryQuery { offset: 99, limit: 5, ..all.clone() }).await;
    assert_eq!((page.deliveries.len(), page.total, page.has_more), (0, 10, false));

    // Deliveries stay when their schedule and their channel are deleted.
    assert!(w.store.delete_schedule(&w.write(minute(6)), of_a).await.expect("delete"));
    assert!(w.store.delete_channel(&w.write(minute(6)), a.expect("one")).await.expect("delete"));
    let page = list(DeliveryQuery { channel: a, ..all }).await;
    assert_eq!(page.total, 5);
    assert_eq!(w.store.delivery(w.foreign, page.deliveries[0].id).await.expect("read"), None);
    assert!(page.deliveries.iter().all(|one| one.channel_label.is_none()));
}

/// Creates two channels with a few deliveries each, one of which was delivered, and one delivery
/// without a channel.
async fn few(w: &World) -> [(Option<ChannelId>, ScheduleId); 3] {
    let (a, of_a) = waiting(w, "a", 5, minute(2)).await;
    let (b, of_b) = waiting(w, "b", 4, minute(3)).await;
    let alone = w.schedule().await;
    w.tell_failures(alone, &[]).await;
    w.fail(alone, 4).await;
    w.relay(minute(5), &ONE_BY_ONE).await;
    let taken = w.claim_due(minute(5)).await.taken;
    let mut of_b_taken = taken.iter().filter(|one| one.channel == b);
    let arrives = try_end(of_b_taken.next().expect("four"), minute(5), TryOutcome::Delivered);
    assert_eq!(complete(w, minute(5), &[arrives]).await, [true]);
    [(Some(a), of_a), (Some(b), of_b), (None, alone)]
}

pub async fn lists_are_filtered(w: &World) {
    let [(a, of_a), (b, of_b), (_, alone)] = few(w).await;
    let list =
        async |query: DeliveryQuery| w.store.deliveries(w.account, &query).await.expect("list");
    let all = DeliveryQuery { limit: 100, ..DeliveryQuery::default() };
    let whole = list(all.clone()).await;
    let [pending, delivered, failed] =
        [DeliveryStatus::Pending, DeliveryStatus::Delivered, DeliveryStatus::Failed];
    for (channel, schedule, status, count) in [
        (a, None, None, 5),
        (None, Some(of_b), None, 4),
        (a, Some(of_a), None, 5),
        (a, Some(of_b), None, 0),
        (None, None, Some(pending), 8),
        (None, None, Some(delivered), 1),
        (None, None, Some(failed), 1),
        (None, None, Some(DeliveryStatus::Merged), 0),
        (b, Some(of_b), Some(delivered), 1),
        (None, Some(alone), Some(failed), 1),
    ] {
        let query = DeliveryQuery { channel, schedule, status, limit: 2, ..all.clone() };
        let page = list(query.clone()).await;
        assert_eq!(page.total, count, "{query:?}");
        assert_eq!(page.deliveries.len() as u64, count.min(2), "{query:?}");
        assert_eq!(page.has_more, count > 2, "{query:?}");
        let page = list(DeliveryQuery { limit: 100, ..query.clone() }).await;
        let fits = |one: &&Delivery| {
            channel.is_none_or(|channel| one.channel == Some(channel))
                && schedule.is_none_or(|schedule| one.schedule == Some(schedule))
                && status.is_none_or(|status| one.status == status)
        };
        let expected: Vec<_> = whole.deliveries.iter().filter(fits).cloned().collect();
        assert_eq!(page.deliveries, expected, "{query:?}");
        let theirs = w.store.deliveries(w.foreign, &query).await.expect("list");
        assert_eq!((theirs.deliveries.len(), theirs.total), (0, 0));
    }
}

pub async fn the_total_stops_at_ten_thousand(w: &World) {
    let (channel, _) = waiting(w, "ops", 5_000, minute(100)).await;
    let query = DeliveryQuery { channel: Some(channel), limit: 1, ..DeliveryQuery::default() };
    let total = async || w.store.deliveries(w.account, &query).await.expect("list").total;
    assert_eq!(total().await, 5_000);
    for _ in 0..3 {
        let id = w.schedule().await;
        w.tell_failures(id, &[channel]).await;
        w.fail_often(id, 2_000, minute(100)).await;
    }
    w.relay(minute(101), &ONE_BY_ONE).await;
    assert_eq!(total().await, 10_000);
}

pub async fn old_ones_go_in_small_batches(w: &World) {
    let (old, _) = waiting(w, "old", 6, minute(2)).await;
    for (n, claimed) in w.claim_due(minute(3)).await.taken.into_iter().enumerate() {
        let outcome = match n {
            0 => failed(Some(minute(99))),
            1 => continue,
            2 => failed(None),
            _ => TryOutcome::Delivered,
        };
        let end = try_end(&claimed, minute(3), outcome);
        assert_eq!(complete(w, minute(3), &[end]).await, [true]);
    }
    waiting(w, "new", 2, minute(9)).await;
    let claim = DeliveryClaim { busy: vec![old], ..w.delivery_claim(minute(9)) };
    let new = w.store.claim_deliveries(&claim).await.expect("claim").taken;
    let ends: Vec<_> =
        new.iter().map(|one| try_end(one, minute(9), TryOutcome::Delivered)).collect();
    assert_eq!(complete(w, minute(9), &ends).await, [true; 2]);
    let prune = async |before| w.steady.prune_deliveries(before, 3).await.expect("prune");
    assert_eq!(prune(minute(2)).await, 0);
    let before = w.store.rows_left(w.account).await.expect("count");
    assert_eq!([prune(minute(5)).await, prune(minute(5)).await], [3, 1]);
    assert_eq!(prune(minute(5)).await, 0);
    // Their tries are removed, too.
    assert_eq!(w.store.rows_left(w.account).await.expect("count"), before - 8);
    let left: Vec<_> = w.deliveries().await.iter().map(|one| one.status).collect();
    let (pending, delivered) = (DeliveryStatus::Pending, DeliveryStatus::Delivered);
    assert_eq!(
        left,
        [pending, pending, delivered, delivered],
        "the retryable and the new deliveries"
    );
}
