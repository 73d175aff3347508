use punctual::domain::JobId;
use punctual::domain::ScheduleId;
use punctual::domain::job::{JobStatus, Trigger};
use punctual::domain::outcome::ErrorCode;
use punctual::domain::schedule::{OverlapPolicy, SkipReason};
use punctual::store::{AttemptEnd, Cancelled, Fired, Firing, ScheduleState, TickJob};

use super::world::{World, failure, minute, soon};

pub async fn with_policy(w: &World, policy: OverlapPolicy) -> ScheduleId {
    w.schedule_with(|new| new.overlap_policy = policy).await
}

/// Returns the number of ticks that were skipped because of overlap.
pub async fn overlaps(w: &World, id: ScheduleId) -> u32 {
    let skips = w.skips(id).await;
    skips
        .iter()
        .filter(|skip| skip.reason == SkipReason::Overlap.as_str())
        .map(|skip| skip.count)
        .sum()
}

pub async fn skip_lets_one_run(w: &World) {
    let id = with_policy(w, OverlapPolicy::Skip).await;
    let first = w.tick_job(id).await;
    assert!(w.fire_next(id).await.is_empty());
    w.claim(soon(minute(2)), &[first]).await;
    assert!(w.fire_next(id).await.is_empty());
    assert_eq!(overlaps(w, id).await, 2);
    let skips = w.skips(id).await;
    assert_eq!((skips.len(), skips[0].first, skips[0].last), (1, minute(2), minute(3)));
    assert_eq!(w.store.job(w.account, JobId::of_tick(id, minute(2))).await.expect("read"), None);
    for (end, status) in [
        (AttemptEnd::Succeeded, JobStatus::Success),
        (AttemptEnd::Failed(failure()), JobStatus::Failed),
    ] {
        let claimed = w.store.expired(minute(99), 9).await.expect("read").remove(0);
        let completion = punctual::store::Completion {
            job: claimed.job,
            attempt: claimed.attempt,
            executor: w.executor,
            run: None,
            completed_at: minute(4),
            exchange: None,
            end,
        };
        assert!(w.commit(minute(4), &[completion]).await.tickets.is_empty());
        assert_eq!(w.status(claimed.job).await, status);
        let next = w.tick_job(id).await;
        w.claim(minute(9), &[next]).await;
    }
}

pub async fn the_stored_policy_holds_not_the_one_that_was_read(w: &World) {
    let id = with_policy(w, OverlapPolicy::Skip).await;
    w.tick_job(id).await;
    let firing = w.firing(id).await;
    let read = Firing { overlap_policy: OverlapPolicy::Allow, ..firing.clone() };
    let Fired { tickets, .. } =
        w.store.fire(&[w.fence], soon(minute(2)), &[read]).await.expect("fire");
    assert_eq!(tickets, [], "one is active");
    // The firing may need one more read of the schedule, but not two.
    if w.read(id).await.next_tick == Some(minute(2)) {
        w.fire(soon(minute(2)), &[firing]).await;
    }
    assert_eq!((overlaps(w, id).await, w.read(id).await.next_tick), (1, Some(minute(3))));
}

pub async fn one_batch_takes_schedules_of_every_policy(w: &World) {
    let policies = [OverlapPolicy::QueueOne, OverlapPolicy::Allow, OverlapPolicy::Skip];
    let mut ids = Vec::new();
    for policy in policies.into_iter().cycle().take(6) {
        ids.push(with_policy(w, policy).await);
    }
    let mut firings = Vec::new();
    for id in &ids {
        firings.push(w.firing(*id).await);
    }
    let done = w.fire(soon(minute(1)), &firings).await;
    let made: Vec<_> = done.tickets.iter().map(|ticket| ticket.job).collect();
    assert_eq!(made, ids.iter().map(|id| JobId::of_tick(*id, minute(1))).collect::<Vec<_>>());
    let advanced: Vec<_> = ids.iter().map(|id| (*id, Some(minute(2)))).collect();
    assert_eq!((done.advanced, done.stale), (advanced, vec![]), "in the order of the batch");
}

pub async fn queue_one_holds_one_more(w: &World) {
    let id = with_policy(w, OverlapPolicy::QueueOne).await;
    let first = w.tick_job(id).await;
    assert!(w.fire_next(id).await.is_empty());
    let firing = w.firing(id).await;
    let done = w.fire(soon(minute(3)), &[firing]).await;
    assert_eq!((done.tickets.len(), done.held.len(), done.overlapped), (0, 0, 1));
    let held = JobId::of_tick(id, minute(2));
    let (job, attempts) = w.job_and_attempts(held).await;
    assert_eq!((job.status, attempts.len()), (JobStatus::Pending, 0));
    assert_eq!(overlaps(w, id).await, 1);
    assert!(w.claim(minute(9), &[held]).await.is_empty(), "it has no start");
    assert!(!w.store.late(minute(99), None, 9).await.expect("read").iter().any(|t| t.job == held));
    let committed = w.run(minute(9), first, AttemptEnd::Succeeded).await;
    assert_eq!(committed.tickets.len(), 1);
    let ticket = committed.tickets[0];
    assert_eq!((ticket.job, ticket.start), (held, soon(minute(9))));
    // The held job is the active one now, so another job can be held.
    assert!(w.fire_next(id).await.is_empty());
    let next = JobId::of_tick(id, minute(4));
    assert_eq!(w.status(next).await, JobStatus::Pending);
    let committed = w.run(minute(10), held, AttemptEnd::Failed(failure())).await;
    assert_eq!(committed.tickets.iter().map(|ticket| ticket.job).collect::<Vec<_>>(), [next]);
    w.run(minute(11), next, AttemptEnd::Succeeded).await;
    w.tick_job(id).await;
    assert_eq!(overlaps(w, id).await, 1);
}

pub async fn the_first_claim_tells_that_a_job_was_held(w: &World) {
    let id = with_policy(w, OverlapPolicy::QueueOne).await;
    let first = w.tick_job(id).await;
    w.fire_next(id).await;
    let held = JobId::of_tick(id, minute(2));
    let claimed = w.claim(minute(5), &[first]).await.remove(0);
    assert!(!claimed.was_held, "it waited for an executor alone");
    w.commit(minute(6), &[w.completion(&claimed, None, AttemptEnd::Succeeded)]).await;
    let claimed = w.claim(minute(7), &[held]).await.remove(0);
    assert!(claimed.was_held);
    let again = w.completion(&claimed, None, AttemptEnd::Retry(failure(), minute(8)));
    w.commit(minute(7), &[again]).await;
    let claimed = w.claim(minute(9), &[held]).await.remove(0);
    assert_eq!((claimed.attempt, claimed.was_held), (2, false));
}

pub async fn waiting_for_a_retry_counts_as_active(w: &World) {
    let id = with_policy(w, OverlapPolicy::Skip).await;
    let first = w.tick_job(id).await;
    w.run(soon(minute(1)), first, AttemptEnd::Retry(failure(), minute(5))).await;
    assert!(w.fire_next(id).await.is_empty());
    assert_eq!(overlaps(w, id).await, 1);
    w.run(minute(5), first, AttemptEnd::Succeeded).await;
    w.tick_job(id).await;
}

pub async fn manual_jobs_neither_block_nor_are_blocked(w: &World) {
    let id = with_policy(w, OverlapPolicy::QueueOne).await;
    let by_hand = w.manual_job(id, minute(0)).await;
    let first = w.tick_job(id).await;
    let second = w.manual_job(id, soon(minute(1))).await;
    assert_eq!(w.claim(minute(2), &[by_hand, first, second]).await.len(), 3);
    assert!(w.fire_next(id).await.is_empty());
    let held = JobId::of_tick(id, minute(2));
    let claimed = w.store.expired(minute(99), 9).await.expect("read");
    let end = |job: JobId| punctual::store::Completion {
        job,
        attempt: 1,
        executor: w.executor,
        run: None,
        completed_at: minute(3),
        exchange: None,
        end: AttemptEnd::Succeeded,
    };
    assert_eq!(claimed.len(), 3);
    assert!(w.commit(minute(3), &[end(by_hand), end(second)]).await.tickets.is_empty());
    let committed = w.commit(minute(3), &[end(first)]).await;
    assert_eq!(committed.tickets.iter().map(|ticket| ticket.job).collect::<Vec<_>>(), [held]);
}

pub async fn several_late_ticks_find_their_places(w: &World) {
    for (policy, started, pending, skipped) in [
        (OverlapPolicy::Allow, 3, 3, 0),
        (OverlapPolicy::Skip, 1, 1, 2),
        (OverlapPolicy::QueueOne, 1, 2, 1),
    ] {
        let id = with_policy(w, policy).await;
        let jobs: Vec<TickJob> = (1..=3)
            .map(|n| TickJob { id: JobId::of_tick(id, minute(n)), trigger: Trigger::CatchUp })
            .collect();
        let firing =
            Firing { jobs: jobs.clone(), next_tick: Some(minute(4)), ..w.firing(id).await };
        let done = w.fire(soon(minute(3)), &[firing]).await;
        assert_eq!(done.tickets.len(), started, "{policy:?}");
        assert_eq!(done.tickets[0].job, jobs[0].id, "the oldest one starts");
        let held: Vec<_> = jobs[1..].iter().map(|job| job.id).take(pending - started).collect();
        assert_eq!(done.held, held, "{policy:?}");
        assert_eq!(done.overlapped, u64::from(skipped), "{policy:?}");
        let made =
            futures_util::future::join_all(jobs.iter().map(|job| w.store.job(w.account, job.id)));
        let made = made.await.into_iter().filter(|job| matches!(job, Ok(Some(_)))).count();
        assert_eq!(made, pending, "{policy:?}");
        assert_eq!(overlaps(w, id).await, skipped, "{policy:?}");
    }
}

pub async fn cancelling_the_active_one_lets_the_held_one_follow(w: &World) {
    let id = with_policy(w, OverlapPolicy::QueueOne).await;
    let first = w.tick_job(id).await;
    w.fire_next(id).await;
    let held = JobId::of_tick(id, minute(2));
    let cancelled = w.store.cancel_job(&w.write(minute(3)), first).await.expect("cancel");
    let Cancelled::Done(tickets) = cancelled else { panic!("{cancelled:?}") };
    assert_eq!(tickets.len(), 1);
    assert_eq!((tickets[0].job, tickets[0].start), (held, minute(3)));
    assert_eq!(w.claim(minute(3), &[held]).await.len(), 1);
}

pub async fn cancelling_the_held_one_makes_room(w: &World) {
    let id = with_policy(w, OverlapPolicy::QueueOne).await;
    let first = w.tick_job(id).await;
    w.fire_next(id).await;
    let held = JobId::of_tick(id, minute(2));
    let cancelled = w.store.cancel_job(&w.write(minute(2)), held).await.expect("cancel");
    assert_eq!(cancelled, Cancelled::Done(vec![]));
    assert_eq!(w.status(held).await, JobStatus::Failed);
    assert!(w.fire_next(id).await.is_empty());
    let next = JobId::of_tick(id, minute(3));
    assert_eq!(w.status(next).await, JobStatus::Pending);
    let committed = w.run(minute(4), first, AttemptEnd::Succeeded).await;
    assert_eq!(committed.tickets.iter().map(|ticket| ticket.job).collect::<Vec<_>>(), [next]);
}

pub async fn deleting_ends_both(w: &World) {
    let id = with_policy(w, OverlapPolicy::QueueOne).await;
    let first = w.tick_job(id).await;
    w.fire_next(id).await;
    let held = JobId::of_tick(id, minute(2));
    let claimed = w.claim(soon(minute(2)), &[first]).await.remove(0);
    assert!(w.store.delete_schedule(&w.write(minute(3)), id).await.expect("delete"));
    let job = w.job(held).await;
    assert_eq!((job.status, job.error_code), (JobStatus::Failed, Some(ErrorCode::Cancelled)));
    let end = w.completion(&claimed, None, AttemptEnd::Succeeded);
    assert!(w.commit(minute(3), &[end]).await.tickets.is_empty());
    assert_eq!(w.status(first).await, JobStatus::Success);
    assert_eq!(w.status(held).await, JobStatus::Failed);
}

pub async fn a_job_that_exists_does_not_become_active(w: &World) {
    let id = with_policy(w, OverlapPolicy::Skip).await;
    let job = w.tick_job(id).await;
    w.run(soon(minute(1)), job, AttemptEnd::Succeeded).await;
    // The same tick is due again, as after a clock was set back.
    let change = ScheduleState { next_tick: Some(minute(1)), ..w.change(id).await };
    w.store.change_schedule(&w.write(minute(2)), id, &change).await.expect("change");
    assert!(w.fire_next(id).await.is_empty());
    assert_eq!(overlaps(w, id).await, 0);
    // Nothing blocks the next tick.
    w.tick_job(id).await;
}
