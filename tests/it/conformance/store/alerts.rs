//! Cases of alerts: the events of commits, relays, deliveries and digests.

use std::time::Duration;

use futures_util::future::join_all;
use punctual::domain::alert::AlertKind;
use punctual::domain::alert::content::DigestAlert;
use punctual::domain::alert::delivery::{DeliveryError, DeliveryStatus};
use punctual::domain::alert::grouping::GroupingRules;
use punctual::domain::alert::policy::{AlertPolicy, JobEnd, RaisedEvent, Streak};
use punctual::domain::job::JobStatus;
use punctual::domain::outcome::{ErrorCode, Failure};
use punctual::domain::plan::{ChannelType, NotifyOn};
use punctual::domain::{JobId, ScheduleId, Timestamp};
use punctual::store::{
    AlertWork, AttemptEnd, ClaimedDeliveries, ClaimedDelivery, ClaimedJob, Committed, Completion,
    CompletionResult, Delivery, DeliveryClaim, DeliveryContent, DeliveryQuery, ExecutorId, Firing,
    RelayResult, SETTLED, ScheduleState, TickJob, TryEnd, TryOutcome,
};

use super::account_deletion::erase_all;
use super::channels::{after, config};
use super::world::{World, failure, minute, soon};

/// Rules without incidents and digests.
pub const ONE_BY_ONE: GroupingRules = GroupingRules {
    per_minute: 0,
    incident_schedules: 0,
    gather: Duration::from_millis(500),
    gather_most: Duration::from_secs(5),
    calm: Duration::from_secs(120),
    stale: Duration::from_secs(3_600),
    longest: Duration::from_secs(24 * 3_600),
};

/// The duration of a claim in these tests.
pub const CLAIM: Duration = Duration::from_secs(30);

impl World {
    /// Returns all deliveries of the account, oldest first.
    pub async fn deliveries(&self) -> Vec<Delivery> {
        let query = DeliveryQuery { limit: 9_000, ..DeliveryQuery::default() };
        let page = self.store.deliveries(self.account, &query).await.expect("list");
        assert!(!page.has_more);
        page.deliveries.into_iter().rev().collect()
    }

    /// Returns the deliveries of a kind, oldest first.
    pub async fn deliveries_of(&self, kind: AlertKind) -> Vec<Delivery> {
        self.deliveries().await.into_iter().filter(|delivery| delivery.kind == kind).collect()
    }

    /// Lets a job of a schedule fail at minute `at`.
    pub async fn fail(&self, schedule: ScheduleId, at: i64) -> JobId {
        let job = self.manual_job(schedule, minute(at)).await;
        self.run(minute(at), job, AttemptEnd::Failed(failure())).await;
        job
    }

    /// Ends a job of each schedule at `at`, in one batch. Returns the jobs.
    pub async fn end_all(
        &self,
        schedules: &[ScheduleId],
        at: Timestamp,
        end: &AttemptEnd,
    ) -> Vec<JobId> {
        let mut jobs = Vec::new();
        for schedule in schedules {
            jobs.push(self.manual_job(*schedule, at).await);
        }
        let claimed = self.claim(at, &jobs).await;
        let ends = claimed.iter().map(|claimed| self.completion(claimed, None, end.clone()));
        let committed = self.commit(at, &ends.collect::<Vec<_>>()).await;
        assert!(
            committed.results.iter().all(|result| matches!(result, CompletionResult::Applied(_)))
        );
        jobs
    }

    /// Fires `count` jobs of one schedule in one batch, and lets all of them fail.
    pub async fn fail_often(&self, schedule: ScheduleId, count: usize, at: Timestamp) {
        let firing = self.firing(schedule).await;
        let ticks = (0..count as u64).map(|n| firing.tick.plus(Duration::from_secs(n)));
        let job = |tick| TickJob {
            id: JobId::of_tick(schedule, tick),
            trigger: punctual::domain::job::Trigger::Schedule,
        };
        let jobs: Vec<TickJob> = ticks.map(job).collect();
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        // A later call can fire further ticks at the same time.
        let next_tick = Some(firing.tick.plus(Duration::from_secs(count as u64)));
        self.fire(at, &[Firing { jobs, next_tick, ..firing }]).await;
        for ids in ids.chunks(500) {
            let claimed = self.claim(at, ids).await;
            assert_eq!(claimed.len(), ids.len());
            let end = |claimed| self.completion(claimed, None, AttemptEnd::Failed(failure()));
            let committed = self.commit(at, &claimed.iter().map(end).collect::<Vec<_>>()).await;
            assert_eq!(committed.events, ids.len() as u64);
        }
    }

    pub async fn relay(&self, now: Timestamp, rules: &GroupingRules) -> RelayResult {
        self.store.relay(now, 9_000, rules).await.expect("relay")
    }

    pub fn delivery_claim(&self, now: Timestamp) -> DeliveryClaim {
        DeliveryClaim {
            notifier: ExecutorId(7),
            now,
            until: now.plus(CLAIM),
            limit: 9_000,
            per_channel: 9_000,
            busy: Vec::new(),
            per_account: 9_000,
            busy_accounts: Vec::new(),
            per_type: Vec::new(),
        }
    }

    /// Claims all due deliveries.
    pub async fn claim_due(&self, now: Timestamp) -> ClaimedDeliveries {
        self.store.claim_deliveries(&self.delivery_claim(now)).await.expect("claim")
    }

    /// Claims all due deliveries and completes them as delivered. Returns them in the order of
    /// their events.
    pub async fn deliver_due(&self, now: Timestamp) -> Vec<ClaimedDelivery> {
        let mut taken = self.claim_due(now).await.taken;
        let ends: Vec<_> =
            taken.iter().map(|one| try_end(one, now, TryOutcome::Delivered)).collect();
        let applied = self.store.complete_tries(now, &ends).await.expect("complete");
        assert_eq!(applied, vec![true; ends.len()]);
        taken.sort_by_key(|one| (one.at, one.id));
        taken
    }

    pub async fn work(&self, now: Timestamp) -> AlertWork {
        self.store.alert_work(now).await.expect("read")
    }
}

/// Returns the end of a try that has just been claimed.
pub fn try_end(claimed: &ClaimedDelivery, now: Timestamp, outcome: TryOutcome) -> TryEnd {
    TryEnd {
        delivery: claimed.id,
        account: claimed.account,
        channel: claimed.channel,
        revision: claimed.revision,
        attempt: claimed.attempt,
        notifier: ExecutorId(7),
        started_at: now,
        completed_at: now.plus(Duration::from_millis(20)),
        status_code: Some(200),
        response: Some("ok".into()),
        outcome,
    }
}

pub fn on(notify_on: NotifyOn) -> AlertPolicy {
    AlertPolicy { notify_on, ..AlertPolicy::default() }
}

fn recovering(notify_on: NotifyOn) -> AlertPolicy {
    AlertPolicy { notify_on_recovery: true, ..on(notify_on) }
}

fn policies() -> Vec<AlertPolicy> {
    let thrice = AlertPolicy { failure_threshold: 3, ..recovering(NotifyOn::Both) };
    let hourly = AlertPolicy { repeat_every_minutes: Some(2), ..recovering(NotifyOn::Failure) };
    vec![
        on(NotifyOn::None),
        recovering(NotifyOn::None),
        on(NotifyOn::Failure),
        on(NotifyOn::Success),
        on(NotifyOn::Both),
        recovering(NotifyOn::Both),
        AlertPolicy { failure_threshold: 2, ..on(NotifyOn::Failure) },
        thrice,
        hourly,
        AlertPolicy { failure_threshold: 2, repeat_every_minutes: Some(3), ..thrice },
    ]
}

/// The events that the jobs of a schedule must raise, according to the policy.
struct Expected {
    policy: AlertPolicy,
    streak: Streak,
    told: Vec<(AlertKind, JobId)>,
    events: u64,
}

impl Expected {
    fn end(&mut self, job: JobId, end: JobEnd, at: Timestamp) {
        let (raised, streak) = self.policy.judge(self.streak, end, at);
        self.streak = streak;
        self.events += raised.len() as u64;
        let told = raised.into_iter().filter(|raised| raised.wanted);
        self.told.extend(told.map(|RaisedEvent { kind, .. }| (kind, job)));
    }
}

/// Claims a job of a schedule for each letter of `ends`: `F` fails, `S` succeeds, `C` is cancelled.
/// Returns the end of each job with its letter, in this order.
async fn batch(w: &World, schedule: ScheduleId, ends: &str, at: i64) -> Vec<(Completion, char)> {
    let mut jobs = Vec::new();
    for _ in ends.chars() {
        jobs.push(w.manual_job(schedule, minute(at)).await);
    }
    let claimed = w.claim(minute(at), &jobs).await;
    let mut batch = Vec::new();
    for (job, letter) in jobs.into_iter().zip(ends.chars()) {
        let claimed = claimed.iter().find(|claimed| claimed.job == job).expect("claimed");
        if letter == 'C' {
            w.store.cancel_job(&w.write(minute(at)), job).await.expect("cancel");
        }
        let end = if letter == 'S' { AttemptEnd::Succeeded } else { AttemptEnd::Failed(failure()) };
        batch.push((w.completion(claimed, None, end), letter));
    }
    batch
}

/// Checks that commits raise the events that the policies require. If `told`, a commit gets the
/// data of the runs from their claims, otherwise it reads them. Each batch ends with `busy`, whose
/// rows the caller has locked.
pub async fn commits_raise(w: &World, told: bool, busy: &[Completion]) {
    let mut schedules = Vec::new();
    let channel = w.channel("ops").await;
    for policy in policies() {
        let id = w.schedule().await;
        w.tell(id, policy, &[channel]).await;
        let streak = Streak::default();
        schedules.push((id, Expected { policy, streak, told: Vec::new(), events: 0 }));
    }
    let batches = ["F", "F", "F", "FS", "SF", "C", "FFF", "FSF", "SSC", "FCS", "F", "FFFF", "S"];
    for (at, ends) in (2..).zip(batches) {
        let (mut completions, mut expected) = (Vec::new(), 0);
        for (id, schedule) in &mut schedules {
            let before = schedule.events;
            for (mut completion, letter) in batch(w, *id, ends, at).await {
                let end = if letter == 'S' { JobEnd::Succeeded } else { JobEnd::Failed };
                if letter != 'C' {
                    schedule.end(completion.job, end, minute(at));
                }
                completion.run = completion.run.filter(|_| told);
                completions.push(completion);
            }
            expected += schedule.events - before;
        }
        let count = completions.len();
        completions.extend_from_slice(busy);
        let committed = w.store.commit(minute(at), &completions).await.expect("commit");
        let (results, left) = committed.results.split_at(count);
        assert!(
            results.iter().all(|result| matches!(result, CompletionResult::Applied(_))),
            "{ends}"
        );
        assert!(left.iter().all(|result| *result == CompletionResult::Busy), "{ends}");
        assert_eq!(committed.events, expected, "{ends}");
        let again = w.store.commit(minute(at), &completions).await.expect("commit");
        assert_eq!(again.events, 0, "{ends}: the claims are gone by then");
    }
    let events: u64 = schedules.iter().map(|(_, expected)| expected.events).sum();
    let relayed = w.relay(minute(30), &ONE_BY_ONE).await;
    let all: usize = schedules.iter().map(|(_, expected)| expected.told.len()).sum();
    let expected = RelayResult { events, planned: all as u64, ..RelayResult::default() };
    assert_eq!(relayed, expected);
    let deliveries = w.deliveries().await;
    assert_eq!(deliveries.len(), all);
    for (id, expected) in schedules {
        let of = deliveries.iter().filter(|delivery| delivery.schedule == Some(id));
        let told: Vec<_> = of.map(|one| (one.kind, one.job.expect("a job"))).collect();
        assert_eq!(told, expected.told, "in the order of the events: {:?}", expected.policy);
    }
}

pub async fn commits_raise_the_events_of_the_policy(w: &World) {
    commits_raise(w, true, &[]).await;
}

pub async fn commits_that_read_raise_the_same(w: &World) {
    commits_raise(w, false, &[]).await;
}

pub async fn a_commit_that_does_not_end_a_run_raises_nothing(w: &World) {
    let id = w.schedule().await;
    w.tell(id, recovering(NotifyOn::Both), &[]).await;
    let events = async |completion: Completion| {
        let Committed { results, events, .. } = w.commit(minute(3), &[completion]).await;
        (results[0], events)
    };
    let claim = async || {
        let job = w.manual_job(id, minute(2)).await;
        w.claim(minute(2), &[job]).await.remove(0)
    };
    let end = |claimed: &ClaimedJob, end| w.completion(claimed, None, end);
    let claimed = claim().await;
    let retried = end(&claimed, AttemptEnd::Retry(failure(), minute(3)));
    assert_eq!(events(retried).await, (CompletionResult::Applied(JobStatus::Pending), 0));
    let claimed = w.claim(minute(3), &[claimed.job]).await.remove(0);
    let others = Completion { executor: ExecutorId(1), ..end(&claimed, AttemptEnd::Succeeded) };
    assert_eq!(events(others).await, (CompletionResult::Lost, 0));
    let earlier = Completion { attempt: 1, ..end(&claimed, AttemptEnd::Succeeded) };
    assert_eq!(events(earlier).await, (CompletionResult::Lost, 0));
    let why = Failure { code: ErrorCode::Cancelled, message: "x".into(), retryable: false };
    assert_eq!(
        events(end(&claimed, AttemptEnd::Failed(why))).await,
        (CompletionResult::Applied(JobStatus::Failed), 0)
    );
    let waiting = w.manual_job(id, minute(2)).await;
    w.store.cancel_job(&w.write(minute(2)), waiting).await.expect("cancel");
    assert_eq!(w.work(minute(9)).await, AlertWork::default());
    // A retry after the last attempt is a failure like any other.
    let once = w.schedule_with(|new| new.version.definition.max_retries = 1).await;
    w.tell_failures(once, &[]).await;
    let job = w.manual_job(once, minute(2)).await;
    let claimed = w.claim(minute(2), &[job]).await.remove(0);
    let retried = end(&claimed, AttemptEnd::Retry(failure(), minute(3)));
    assert_eq!(events(retried).await, (CompletionResult::Applied(JobStatus::Failed), 1));
}

pub async fn an_event_becomes_a_delivery_for_each_channel(w: &World) {
    let [a, b] = [w.channel("a").await, w.channel("b").await];
    let c = w.unverified_channel(w.account, "c").await;
    w.verify(c).await;
    let [id, other] = [w.schedule().await, w.schedule().await];
    w.tell_failures(id, &[b, a, c]).await;
    w.tell_failures(other, &[a]).await;
    assert!(w.store.unverify_channel(&w.write(minute(1)), c, "gone").await.expect("unverify"));
    w.fail(id, 2).await;
    let job = w.fail(id, 3).await;
    let change = ScheduleState { name: "renamed".into(), ..w.change(id).await };
    w.store.change_schedule(&w.write(minute(3)), id, &change).await.expect("change");
    assert!(w.work(minute(4)).await.relay);
    let relayed = w.relay(minute(4), &ONE_BY_ONE).await;
    assert_eq!(relayed, RelayResult { events: 2, planned: 4, ..RelayResult::default() });
    assert_eq!(w.relay(minute(4), &ONE_BY_ONE).await, RelayResult::default(), "each event once");

    let planned = w.deliveries().await;
    let of_second: Vec<_> = planned.iter().filter(|one| one.job == Some(job)).collect();
    let [first, second] = of_second[..] else { panic!("{planned:?}") };
    assert_eq!([first.channel, second.channel], [Some(b), Some(a)], "in their order");
    assert_eq!(first.event, second.event);
    assert_ne!(first.event, planned[0].event);
    for delivery in [first, second] {
        assert_eq!((delivery.kind, delivery.schedule), (AlertKind::JobFailed, Some(id)));
        assert_eq!((delivery.status, delivery.tries_made), (DeliveryStatus::Pending, 0));
        assert_eq!((delivery.at, delivery.created_at), (soon(minute(3)), minute(4)));
        assert_eq!((delivery.next_try_at, delivery.completed_at), (Some(minute(4)), None));
        assert_eq!((delivery.error_code, &delivery.tries), (None, &vec![]));
        assert_eq!(delivery.channel_type, Some(ChannelType::Slack));
        let read = w.store.delivery(w.account, delivery.id).await.expect("read");
        assert_eq!(read.as_ref(), Some(delivery));
    }
    assert_eq!(first.channel_label.as_deref(), Some("b"));

    assert!(w.claim_due(Timestamp::from_millis(minute(4).as_millis() - 1)).await.taken.is_empty());
    let ClaimedDeliveries { taken, undeliverable } = w.claim_due(minute(4)).await;
    assert_eq!((taken.len(), undeliverable), (4, 0));
    let claimed = taken.iter().find(|one| one.id == first.id).expect("claimed");
    assert_eq!((claimed.account, claimed.channel), (w.account, b));
    assert_eq!(
        (claimed.channel_type, &claimed.config),
        (ChannelType::Slack, &Some(config("first")))
    );
    assert_eq!((claimed.event, claimed.kind, claimed.at), (first.event, first.kind, first.at));
    assert_eq!((claimed.attempt, claimed.attempt_of_round), (1, 1));
    assert_eq!(claimed.round_began, minute(4));
    let DeliveryContent::Job(alert) = &claimed.content else { panic!("{:?}", claimed.content) };
    assert_eq!((alert.schedule.id, alert.schedule.name.as_str()), (id, "a schedule"));
    assert_eq!(alert.schedule.endpoint, "https://example.com/hook");
    assert_eq!((alert.consecutive_failures, alert.job.id), (2, job));
    assert_eq!((alert.job.status, alert.job.status_code), (JobStatus::Failed, Some(503)));
    assert_eq!(alert.job.response.as_deref(), Some("not now"));
    assert_eq!(alert.job.error_code, Some(ErrorCode::HttpStatus));
    assert!(w.claim_due(minute(4)).await.taken.is_empty(), "they are being tried");
}

pub async fn an_alert_without_a_receiver_is_recorded(w: &World) {
    let channel = w.channel("ops").await;
    let [none, unverified] = [w.schedule().await, w.schedule().await];
    w.tell(none, recovering(NotifyOn::Failure), &[]).await;
    w.tell(unverified, on(NotifyOn::Failure), &[channel]).await;
    assert!(w.store.unverify_channel(&w.write(minute(1)), channel, "x").await.expect("unverify"));
    for id in [none, unverified] {
        w.fail(id, 2).await;
        w.end_all(&[id], minute(3), &AttemptEnd::Succeeded).await;
    }
    for rules in [ONE_BY_ONE, GroupingRules::default()] {
        w.relay(minute(4), &rules).await;
    }
    let mut found: Vec<_> = w
        .deliveries()
        .await
        .into_iter()
        .map(|one| {
            assert_eq!((one.channel, one.status), (None, DeliveryStatus::Failed));
            assert_eq!((one.error_code, one.next_try_at), (Some(DeliveryError::NoChannel), None));
            assert!(one.error_message.is_some_and(|text| text.contains("no verified channel")));
            assert_eq!(one.completed_at, Some(minute(4)));
            (one.schedule, one.kind)
        })
        .collect();
    found.sort_by_key(|(schedule, kind)| (*schedule != Some(none), kind.as_str()));
    assert_eq!(
        found,
        [
            (Some(none), AlertKind::JobFailed),
            (Some(none), AlertKind::ScheduleRecovered),
            (Some(unverified), AlertKind::JobFailed),
        ]
    );
    assert!(!w.work(minute(5)).await.deliver);
    // The schedule is deleted before its event is relayed.
    w.fail(unverified, 6).await;
    assert!(w.store.delete_schedule(&w.write(minute(6)), unverified).await.expect("delete"));
    let relayed = w.relay(minute(7), &ONE_BY_ONE).await;
    assert_eq!((relayed.events, relayed.undeliverable), (1, 1));
}

pub async fn of_many_relays_at_once_each_event_is_one_delivery(w: &World) {
    let [a, b] = [w.channel("a").await, w.channel("b").await];
    let id = w.schedule().await;
    w.tell_failures(id, &[a, b]).await;
    w.fail_often(id, 40, minute(2)).await;
    let relays = (0..8).map(|_| {
        let store = w.store.clone();
        w.spawn(async move { store.relay(minute(3), 7, &ONE_BY_ONE).await.expect("relay") })
    });
    let relayed = join_all(relays).await;
    let mut events: u64 = relayed.iter().map(|relayed| relayed.events).sum();
    assert!(relayed.iter().all(|relayed| relayed.planned == 2 * relayed.events));
    while w.work(minute(3)).await.relay {
        // Without faults: a repeated call would relay further events.
        let relayed = w.steady.relay(minute(3), 7, &ONE_BY_ONE).await.expect("relay");
        assert!((1..=7).contains(&relayed.events), "{relayed:?}");
        events += relayed.events;
    }
    assert_eq!((events, w.deliveries().await.len()), (40, 80));
}

pub async fn alerts_of_one_batch_are_sent_in_their_order(w: &World) {
    let channel = w.channel("ops").await;
    let id = w.schedule().await;
    w.tell(id, recovering(NotifyOn::Both), &[channel]).await;
    let mut completions = Vec::new();
    for (completion, _) in batch(w, id, "FSFSFSS", 2).await {
        completions.push(completion);
    }
    assert_eq!(w.commit(minute(2), &completions).await.events, 7);
    w.relay(minute(3), &ONE_BY_ONE).await;
    let jobs: Vec<_> = completions.iter().map(|completion| Some(completion.job)).collect();
    let listed: Vec<_> = w.deliveries().await.iter().map(|one| one.job).collect();
    assert_eq!(listed, jobs);
    // A claim of a few deliveries of a channel gets the first ones.
    let claim = DeliveryClaim { per_channel: 3, ..w.delivery_claim(minute(3)) };
    let taken = w.steady.claim_deliveries(&claim).await.expect("claim").taken;
    let taken: Vec<_> = taken.iter().map(job_of).collect();
    assert_eq!(taken, jobs[..3]);
}

fn job_of(claimed: &ClaimedDelivery) -> Option<JobId> {
    match &claimed.content {
        DeliveryContent::Job(alert) => Some(alert.job.id),
        _ => None,
    }
}

const FLOOD: GroupingRules = GroupingRules { per_minute: 3, ..ONE_BY_ONE };

pub async fn a_flood_becomes_a_digest(w: &World) {
    let [ops, other] = [w.channel("ops").await, w.channel("other").await];
    let mut ids = Vec::new();
    for n in 0..7 {
        let id = w.schedule_with(|new| new.name = format!("schedule {n}")).await;
        w.tell(id, recovering(NotifyOn::Failure), &[ops]).await;
        ids.push(id);
    }
    w.tell(ids[0], on(NotifyOn::Failure), &[ops, other]).await;
    for (n, id) in ids.iter().enumerate() {
        w.end_all(
            &[*id],
            minute(2).plus(Duration::from_secs(n as u64)),
            &AttemptEnd::Failed(failure()),
        )
        .await;
    }
    let relayed = w.relay(minute(3), &FLOOD).await;
    assert_eq!((relayed.events, relayed.planned, relayed.merged), (7, 5, 4));
    let sent = w.deliver_due(minute(3)).await;
    assert_eq!(sent.iter().filter(|one| one.channel == ops).count(), 3);
    assert_eq!(sent.iter().filter(|one| one.channel == other).count(), 1);
    // Events of another kind, later in the same minute.
    w.end_all(&ids[..3], minute(3).plus(Duration::from_secs(20)), &AttemptEnd::Succeeded).await;
    let relayed = w.relay(minute(3).plus(Duration::from_secs(30)), &FLOOD).await;
    assert_eq!((relayed.events, relayed.planned, relayed.merged), (3, 0, 2));
    let [digest] = &w.deliveries_of(AlertKind::Digest).await[..] else { panic!("one digest") };
    assert_eq!((digest.channel, digest.schedule, digest.job), (Some(ops), None, None));
    assert_eq!(digest.next_try_at, Some(minute(4)), "the end of the minute");
    let all = w.deliveries().await;
    let merged: Vec<_> = all.iter().filter(|one| one.merged_into == Some(digest.id)).collect();
    assert_eq!(merged.len(), 6);
    for one in &merged {
        assert_eq!((one.status, one.next_try_at), (DeliveryStatus::Merged, None));
        assert!(one.completed_at.is_some());
    }
    assert!(!w.work(Timestamp::from_millis(minute(4).as_millis() - 1)).await.deliver);
    assert!(w.work(minute(4)).await.deliver);

    let claimed = w.claim_due(minute(4)).await.taken.remove(0);
    let expected = DeliveryContent::Digest(DigestAlert {
        counts: vec![(AlertKind::JobFailed, 4), (AlertKind::ScheduleRecovered, 2)],
        names: [3, 4, 5, 6, 1].map(|n| format!("schedule {n}")).into(),
        since: minute(2).plus(Duration::from_secs(3)),
        until: minute(3).plus(Duration::from_secs(20)),
    });
    assert_eq!((claimed.id, &claimed.content), (digest.id, &expected));
    // New events go into the digest of the next minute, even while this digest is tried. Each try
    // has the same content.
    w.fail_often(ids[6], 5, minute(4)).await;
    let relayed = w.relay(after(minute(4)), &FLOOD).await;
    assert_eq!((relayed.planned, relayed.merged), (4, 2));
    let failed = TryOutcome::Failed {
        code: DeliveryError::Timeout,
        message: "late".into(),
        retry_at: Some(minute(5)),
        paused_until: None,
        gone: false,
    };
    let end = try_end(&claimed, minute(4), failed);
    assert_eq!(w.store.complete_tries(minute(4), &[end]).await.expect("complete"), [true]);
    let again = w.claim_due(minute(5)).await.taken;
    let again = again.iter().find(|one| one.id == digest.id).expect("tried again");
    assert_eq!((again.attempt, &again.content), (2, &expected));
    assert_eq!(w.deliveries_of(AlertKind::Digest).await.len(), 2);
}

pub async fn a_digest_that_is_about_to_be_sent_takes_in_nothing_more(w: &World) {
    let ops = w.channel("ops").await;
    let id = w.schedule().await;
    w.tell_failures(id, &[ops]).await;
    let mut at = 2;
    for _ in 0..6 {
        w.fail_often(id, 20, minute(at)).await;
        w.relay(minute(at), &FLOOD).await;
        w.deliver_due(minute(at)).await;
        w.fail_often(id, 15, minute(at)).await;
        // At the very end of the minute, an event is merged or not, but never lost.
        let late = minute(at).plus(Duration::from_secs(60));
        let (store, before) = (w.store.clone(), late.minus(Duration::from_millis(1)));
        let relayed = w.spawn(async move { store.relay(before, 99, &FLOOD).await.expect("relay") });
        let claimed = w.claim_due(late).await.taken;
        assert_eq!(relayed.await.events, 15);
        let ends: Vec<_> =
            claimed.iter().map(|one| try_end(one, late, TryOutcome::Delivered)).collect();
        w.store.complete_tries(late, &ends).await.expect("complete");
        let rest = w.deliver_due(late).await;
        let total = |claimed: &ClaimedDelivery| match &claimed.content {
            DeliveryContent::Digest(digest) => digest.total(),
            _ => 1,
        };
        let told: u32 = claimed.iter().chain(&rest).map(total).sum();
        assert_eq!(told, 32, "20 and 15, but for 3 that were sent at once");
        at += 2;
    }
}

pub async fn it_is_known_what_there_is_to_do(w: &World) {
    let nothing = AlertWork::default();
    assert_eq!(w.work(minute(9)).await, nothing);
    let channel = w.channel("ops").await;
    let id = w.schedule().await;
    w.tell_failures(id, &[channel]).await;
    w.fail(id, 2).await;
    let event = soon(minute(2));
    let expected = AlertWork { relay: true, oldest: Some(event), ..nothing };
    assert_eq!(w.work(minute(3)).await, expected);
    // The event waits for others, to form an incident.
    let rules = GroupingRules { gather: Duration::from_secs(60), ..GroupingRules::default() };
    let rules = GroupingRules { gather_most: Duration::from_secs(600), ..rules };
    w.relay(minute(3), &rules).await;
    let expected = AlertWork { next: Some(minute(4)), waiting: 1, ..nothing };
    assert_eq!(w.work(minute(3)).await, expected);
    assert_eq!(w.work(minute(4)).await, AlertWork { relay: true, ..expected });
    w.relay(minute(4), &rules).await;
    let work = w.work(minute(5)).await;
    let expected = AlertWork {
        relay: false,
        deliver: true,
        next: Some(minute(4)),
        waiting: 1,
        oldest: Some(minute(4)),
    };
    assert_eq!(work, expected);
    // The delivery is tried until its claim ends.
    let claimed = w.claim_due(minute(5)).await.taken.remove(0);
    let until = minute(5).plus(CLAIM);
    let expected = AlertWork { next: Some(until), waiting: 1, ..nothing };
    assert_eq!(w.work(minute(5)).await, expected);
    assert_eq!(w.work(until).await, AlertWork { deliver: true, ..expected });
    let end = try_end(&claimed, minute(5), TryOutcome::Delivered);
    assert_eq!(w.store.complete_tries(minute(5), &[end]).await.expect("complete"), [true]);
    let watched = event.plus(rules.stale);
    assert_eq!(w.work(minute(5)).await, AlertWork { next: Some(watched), ..nothing });
    w.relay(watched, &rules).await;
    assert_eq!(w.work(watched).await, nothing);
}

pub async fn nothing_of_a_deleted_account_is_alerted(w: &World) {
    let channel = w.channel("ops").await;
    let [id, other] = [w.schedule().await, w.schedule().await];
    let running = w.manual_job(other, minute(1)).await;
    let running = w.claim(minute(1), &[running]).await.remove(0);
    w.tell_failures(id, &[channel]).await;
    w.tell_failures(other, &[channel]).await;
    w.fail(id, 2).await;
    w.relay(minute(2).plus(Duration::from_secs(1)), &GroupingRules::default()).await;
    w.fail(id, 3).await;
    w.relay(minute(3).plus(Duration::from_secs(1)), &ONE_BY_ONE).await;
    w.fail(id, 4).await;
    let before = w.deliveries().await;
    assert_eq!(before.len(), 2);
    assert!(w.store.delete_account(&w.write(minute(4))).await.expect("delete"));
    assert_eq!(w.deliveries().await, []);
    assert_eq!(w.store.delivery(w.account, before[0].id).await.expect("read"), None);
    // A running attempt ends as usual.
    let end = w.completion(&running, None, AttemptEnd::Failed(failure()));
    w.commit(minute(5), &[end]).await;
    for at in [minute(5), minute(500)] {
        let work = w.work(at).await;
        assert!(!work.relay && !work.deliver, "nothing to do: {work:?}");
        assert_eq!((work.next, work.oldest), (None, None));
        assert_eq!(w.relay(at, &GroupingRules::default()).await, RelayResult::default());
        assert_eq!(w.claim_due(at).await, ClaimedDeliveries::default());
    }
    assert!(w.store.rows_left(w.account).await.expect("count") > 5);
    erase_all(w, w.account).await;
    assert_eq!(w.store.rows_left(w.account).await.expect("count"), 0);
    let settled = minute(4).plus(SETTLED);
    w.relay(settled, &GroupingRules::default()).await;
    assert!(w.steady.erase(w.account, settled, 9).await.expect("erase").gone);
    assert_eq!(w.work(minute(500)).await, AlertWork::default());
}
