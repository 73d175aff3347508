use std::collections::BTreeSet;
use std::time::Duration;

use punctual::domain::job::{JobStatus, Trigger};
use punctual::domain::schedule::{CatchUpPolicy, OverlapPolicy, SkipReason};
use punctual::domain::shard::{Epoch, ShardId};
use punctual::domain::ticket::Ticket;
use punctual::domain::{JobId, ScheduleId, VersionId};
use punctual::store::{
    AttemptEnd, Candidate, CurrentLeader, Fence, Fired, Firing, ScheduleState, ShardRecord,
    StoreErrorKind, TickJob, TickRange,
};

use super::world::{HOST, SHARD, World, every_job, failure, fenced, minute, soon};

pub async fn the_shards_are_fixed_once(w: &World) {
    assert_eq!(w.store.set_up_shards(4).await.expect("the same number"), 4);
    let error = w.store.set_up_shards(64).await.expect_err("another number");
    assert_eq!(error.kind(), StoreErrorKind::Incompatible);
    let text = error.to_string();
    assert!(text.contains("4 shards") && text.contains("64"), "{text}");
    assert_eq!(w.store.set_up_shards(4).await.expect("the same number"), 4);
}

pub async fn the_installation_is_numbered_once(w: &World) {
    assert_eq!(w.store.installation(u32::MAX).await.expect("numbered"), u32::MAX);
    assert_eq!(w.store.installation(7).await.expect("the same"), u32::MAX);
}

pub async fn an_epoch_rises(w: &World) {
    let raise =
        async |shard| w.store.raise_epoch(ShardId(shard), "r", minute(1)).await.expect("raise");
    let (a, other, b) = (raise(3).await, raise(2).await, raise(3).await);
    assert!(a < b);
    // A repeated call raises the epoch again, so the numbers themselves are not checked.
    let records = w.store.shard_records(minute(1)).await.expect("read");
    let newest =
        |shard: u16| records[usize::from(shard)].leader.as_ref().map(|leader| leader.epoch);
    assert_eq!((newest(2), newest(3)), (Some(other), Some(b)), "each shard counts for itself");
}

pub async fn shards_show_their_leaders_and_waiting_work(w: &World) {
    let id = w.schedule().await;
    let records = async |now| w.store.shard_records(now).await.expect("read");
    let quiet = records(minute(0)).await;
    let shards: Vec<_> = quiet.iter().map(|record| record.shard).collect();
    assert_eq!(shards, [0, 1, 2, 3].map(ShardId));
    let own = |records: &[ShardRecord]| {
        records.iter().find(|record| record.shard == SHARD).cloned().expect("the shard")
    };
    let led = CurrentLeader { replica: "replica".to_owned(), epoch: w.fence.epoch, at: minute(0) };
    let nothing =
        ShardRecord { shard: SHARD, leader: Some(led), due_since: None, waiting_since: None };
    assert_eq!(own(&quiet), nothing);
    for other in quiet.iter().filter(|record| record.shard != SHARD) {
        assert_eq!((&other.leader, other.due_since, other.waiting_since), (&None, None, None));
    }
    assert_eq!(own(&records(minute(3)).await).due_since, Some(minute(1)));
    w.fire_next(id).await;
    let job = w.manual_job(id, minute(2)).await;
    let late = own(&records(minute(3)).await);
    assert_eq!((late.due_since, late.waiting_since), (Some(minute(2)), Some(soon(minute(1)))));
    w.run(minute(2), job, AttemptEnd::Succeeded).await;
    assert_eq!(own(&records(minute(0)).await).waiting_since, None, "not before it could start");
}

pub async fn a_tick_becomes_a_job_and_moves_on(w: &World) {
    let id = w.schedule().await;
    let firing = w.firing(id).await;
    let now = soon(minute(1));
    let done = w.fire(now, std::slice::from_ref(&firing)).await;
    let job = JobId::of_tick(id, minute(1));
    let ticket = Ticket { job, shard: SHARD, account: w.account, host: HOST, start: now };
    assert_eq!(done.tickets, [ticket]);
    assert_eq!((done.advanced, done.stale), (vec![(id, Some(minute(2)))], vec![]));
    let read = w.job(job).await;
    assert_eq!((read.status, read.trigger), (JobStatus::Pending, Trigger::Schedule));
    assert_eq!((read.scheduled_run_at, read.created_at), (minute(1), now));
    assert_eq!((read.attempt_number, read.max_attempts), (0, 3));
    let read = w.read(id).await;
    assert_eq!(read.next_tick, Some(minute(2)));
    assert_eq!((read.revision, read.updated_at), (1, minute(0)), "no user has changed it");
    assert!(w.skips(id).await.is_empty());
}

pub async fn firing_again_changes_nothing(w: &World) {
    let [id, other] = [w.schedule().await, w.schedule().await];
    let firing = w.firing(id).await;
    let twice = [firing.clone(), firing.clone(), w.firing(other).await];
    let done = w.fire(soon(minute(1)), &twice).await;
    assert_eq!((done.tickets.len(), done.advanced.len(), done.stale), (2, 2, vec![id]));
    let done = w.fire(soon(minute(1)), &twice).await;
    assert_eq!((done.tickets, done.advanced), (vec![], vec![]));
    assert_eq!(done.stale, [id, id, other]);
    assert_eq!(w.listed(&every_job()).await.len(), 2);
    assert_eq!(w.read(id).await.next_tick, Some(minute(2)));
    let done = w.fire(soon(minute(1)), &[]).await;
    assert!(done.tickets.is_empty() && done.advanced.is_empty() && done.stale.is_empty());
}

pub async fn an_older_epoch_changes_nothing(w: &World) {
    let id = w.schedule().await;
    let firing = w.firing(id).await;
    let newer = w.store.raise_epoch(SHARD, "another", minute(1)).await.expect("raise");
    let with = async |fence| {
        w.store.fire(&[fence], soon(minute(1)), std::slice::from_ref(&firing)).await.expect("fire")
    };
    assert_eq!(with(w.fence).await, fenced());
    assert_eq!(
        with(Fence { shard: SHARD, epoch: Epoch(9) }).await,
        fenced(),
        "an epoch without a leader"
    );
    assert_eq!(w.read(id).await.next_tick, Some(minute(1)));
    assert!(w.listed(&every_job()).await.is_empty());
    let fired = with(Fence { shard: SHARD, epoch: newer }).await;
    assert!(matches!(fired, Fired { ref tickets, .. } if tickets.len() == 1), "{fired:?}");
}

pub async fn changed_schedules_are_stale(w: &World) {
    let [gone, disabled, changed, fine] =
        [w.schedule().await, w.schedule().await, w.schedule().await, w.schedule().await];
    let foreign = w.schedule_with(|new| new.shard = ShardId(1)).await;
    let mut firings = Vec::new();
    for id in [gone, disabled, changed, foreign, fine] {
        firings.push(w.firing(id).await);
    }
    firings.push(Firing { schedule: ScheduleId::new(minute(0), 1), ..firings[0].clone() });
    let now = soon(minute(1));
    w.store.delete_schedule(&w.write(now), gone).await.expect("delete");
    let change = ScheduleState { is_enabled: false, next_tick: None, ..w.change(disabled).await };
    w.store.change_schedule(&w.write(now), disabled, &change).await.expect("change");
    let version = w.new_version(super::world::definition());
    let change = ScheduleState { version: Some(version), ..w.change(changed).await };
    w.store.change_schedule(&w.write(now), changed, &change).await.expect("change");
    let done = w.fire(now, &firings).await;
    assert_eq!(done.advanced, [(fine, Some(minute(2)))]);
    assert_eq!(done.tickets.len(), 1);
    let expected = [gone, disabled, changed, foreign, ScheduleId::new(minute(0), 1)];
    assert_eq!(done.stale, expected);
    assert_eq!(w.listed(&every_job()).await, [JobId::of_tick(fine, minute(1))]);
    let other_version = Firing { version: VersionId::new(minute(0), 1), ..w.firing(fine).await };
    assert_eq!(w.fire(minute(9), &[other_version]).await.stale, [fine]);
}

pub async fn nothing_starts_early_or_moves_back(w: &World) {
    let id = w.schedule().await;
    let firing = w.firing(id).await;
    let early = minute(1).minus(Duration::from_millis(1));
    let no_jobs = Firing { jobs: vec![], ..firing.clone() };
    assert_eq!(w.fire(early, &[no_jobs]).await.stale, [id]);
    for (now, wrong) in [
        (early, firing.clone()),
        (minute(9), Firing { next_tick: Some(minute(1)), ..firing.clone() }),
        (minute(9), Firing { next_tick: Some(minute(0)), ..firing.clone() }),
        (minute(9), Firing { jobs: job_at(id, 10), ..firing.clone() }),
    ] {
        let error = w.store.fire(&[w.fence], now, &[wrong]).await.expect_err("against the rules");
        assert_eq!(error.kind(), StoreErrorKind::Rejected);
    }
    assert_eq!(w.read(id).await.next_tick, Some(minute(1)));
    assert!(w.listed(&every_job()).await.is_empty());
    assert_eq!(w.fire(minute(1), &[firing]).await.tickets.len(), 1);
}

fn job_at(id: ScheduleId, n: i64) -> Vec<TickJob> {
    vec![TickJob { id: JobId::of_tick(id, minute(n)), trigger: Trigger::Schedule }]
}

pub async fn a_job_that_exists_is_not_made_again(w: &World) {
    let [id, other] = [w.schedule().await, w.schedule().await];
    let job = w.tick_job(id).await;
    w.run(soon(minute(1)), job, AttemptEnd::Succeeded).await;
    // The same tick is due again, as after a clock was set back.
    let change = ScheduleState { next_tick: Some(minute(1)), ..w.change(id).await };
    w.store.change_schedule(&w.write(minute(2)), id, &change).await.expect("change");
    let done = w.fire(minute(3), &[w.firing(id).await, w.firing(other).await]).await;
    assert_eq!((done.tickets.len(), done.advanced.len()), (1, 2));
    let beside = JobId::of_tick(other, minute(1));
    assert_eq!(done.tickets[0].job, beside, "the others fire");
    assert_eq!(w.status(job).await, JobStatus::Success);
    let all: BTreeSet<JobId> = w.listed(&every_job()).await.into_iter().collect();
    assert_eq!(all, BTreeSet::from([job, beside]));
}

pub async fn the_last_tick_leaves_none(w: &World) {
    let id = w.schedule().await;
    let last = Firing { next_tick: None, ..w.firing(id).await };
    let done = w.fire(soon(minute(1)), &[last]).await;
    assert_eq!((done.tickets.len(), done.advanced), (1, vec![(id, None)]));
    assert_eq!(w.read(id).await.next_tick, None);
    assert!(w.store.next_ticks(SHARD, None, 10).await.expect("read").is_empty());
    assert!(w.candidates(&[id]).await.is_empty());
}

pub async fn catching_up_makes_jobs_and_skips(w: &World) {
    let id = w.schedule().await;
    let range = TickRange { first: minute(1), last: minute(7), count: 7 };
    let jobs: Vec<TickJob> = (8..=10)
        .map(|n| TickJob { id: JobId::of_tick(id, minute(n)), trigger: Trigger::CatchUp })
        .collect();
    let firing = Firing {
        jobs: jobs.clone(),
        skips: vec![(range, SkipReason::CatchUp)],
        next_tick: Some(minute(11)),
        ..w.firing(id).await
    };
    let now = soon(minute(10));
    let done = w.fire(now, &[firing]).await;
    let made: Vec<_> = done.tickets.iter().map(|ticket| ticket.job).collect();
    assert_eq!(made, jobs.iter().map(|job| job.id).collect::<Vec<_>>(), "oldest first");
    assert!(done.tickets.iter().all(|ticket| ticket.start == now));
    assert_eq!(w.job(made[0]).await.trigger, Trigger::CatchUp);
    let skips = w.skips(id).await;
    assert_eq!(skips.len(), 1);
    assert_eq!((skips[0].first, skips[0].last, skips[0].count), (minute(1), minute(7), 7));
    assert_eq!(skips[0].reason, SkipReason::CatchUp.as_str());
}

pub async fn next_ticks_come_in_pages(w: &World) {
    let mut expected = Vec::new();
    for number in 0..7 {
        let id = w
            .schedule_with(|new| {
                new.next_tick = Some(minute(number));
                new.is_enabled = number != 2;
            })
            .await;
        if number != 2 {
            expected.push((id, minute(number)));
        }
    }
    w.schedule_with(|new| new.shard = ShardId(2)).await;
    expected.sort();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = w.store.next_ticks(SHARD, after, 4).await.expect("read");
        seen.extend(page.iter().map(|entry| (entry.schedule, entry.tick)));
        after = page.last().map(|entry| entry.schedule);
        if page.len() < 4 {
            break;
        }
    }
    assert_eq!(seen, expected);
}

pub async fn jobs_that_have_not_begun_are_counted_by_schedule(w: &World) {
    let [many, one, none] = [w.schedule().await, w.schedule().await, w.schedule().await];
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(w.manual_job(many, minute(1)).await);
    }
    w.manual_job(one, minute(1)).await;
    w.run(minute(1), jobs[0], AttemptEnd::Retry(failure(), minute(2))).await;
    w.run(minute(1), jobs[1], AttemptEnd::Succeeded).await;
    w.claim(minute(1), &[jobs[2]]).await;
    let counted = async |most| {
        let counted = w.store.unstarted(&[many, one, none], most).await.expect("counted");
        [many, one, none].map(|id| counted.get(&id).copied().unwrap_or(0))
    };
    assert_eq!(counted(9).await, [2, 1, 0], "neither running jobs nor retries");
    assert_eq!(counted(1).await, [1, 1, 0]);
    assert!(w.store.unstarted(&[], 9).await.expect("counted").is_empty());
}

pub async fn candidates_are_the_schedules_that_can_fire(w: &World) {
    let id = w
        .schedule_with(|new| {
            new.overlap_policy = OverlapPolicy::Skip;
            new.catch_up_policy = CatchUpPolicy::All;
        })
        .await;
    let disabled = w.schedule_with(|new| new.is_enabled = false).await;
    let elsewhere = w.schedule_with(|new| new.shard = ShardId(1)).await;
    let missing = ScheduleId::new(minute(0), 1);
    let found = w.candidates(&[disabled, id, elsewhere, missing]).await;
    let read = w.read(id).await;
    let expected = Candidate {
        shard: SHARD,
        suspensions: 0,
        schedule: id,
        account: w.account,
        host: HOST,
        plan: None,
        suspended_until: None,
        version: read.version,
        tick: minute(1),
        cron_expression: "* * * * *".into(),
        timezone: "Europe/Berlin".into(),
        overlap_policy: OverlapPolicy::Skip,
        catch_up_policy: None,
    };
    let late = Candidate { catch_up_policy: Some(CatchUpPolicy::All), ..expected.clone() };
    assert_eq!(found, std::slice::from_ref(&expected));
    for (late_before, expected) in [(minute(1), expected), (soon(minute(1)), late)] {
        let found = w.store.candidates(&[(SHARD, id)], late_before).await.expect("read");
        assert_eq!(found, [expected]);
    }
    assert!(w.candidates(&[]).await.is_empty());
}
