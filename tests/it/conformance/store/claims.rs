use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use punctual::domain::JobId;
use punctual::domain::job::JobStatus;
use punctual::store::{
    AttemptEnd, ClaimRequest, ClaimedJobs, Completion, ExecutorId, LATE_OF_EACH, NewJob,
    RecordedAttempt, WaitingJobs,
};

use super::world::{World, failure, lease_end, minute, soon};

pub async fn one_claimer_of_many_gets_a_job(w: &World) {
    let id = w.schedule().await;
    let mut jobs = Vec::new();
    for _ in 0..40 {
        jobs.push(w.manual_job(id, minute(1)).await);
    }
    let mut claims = Vec::new();
    for number in 0..12 {
        claims.push(w.others_claim(number, minute(1)).await);
    }
    let claimers = claims.into_iter().map(|claim| {
        let jobs = jobs.clone();
        let store = w.store.clone();
        w.spawn(async move {
            let mut mine = Vec::new();
            for few in jobs.chunks(7) {
                mine.extend(store.claim(&claim, few).await.expect("claim").taken);
            }
            mine
        })
    });
    let all = futures_util::future::join_all(claimers).await;
    let claimed: Vec<JobId> = all.into_iter().flatten().map(|claimed| claimed.job).collect();
    assert_eq!(claimed.len(), 40);
    assert_eq!(claimed.into_iter().collect::<HashSet<_>>(), jobs.into_iter().collect());
}

pub async fn a_claim_is_whole(w: &World) {
    let id = w.schedule().await;
    let job = w.tick_job(id).await;
    let unknown = JobId::new(minute(1), 1);
    let now = soon(minute(1));
    let claimed = w.claim(now, &[unknown, job, job]).await;
    let expected = w.first_claimed(id, job, now).await;
    assert_eq!(claimed, [expected]);
    let (job, attempts) = w.job_and_attempts(job).await;
    assert_eq!((job.status, job.attempt_number), (JobStatus::Running, 1));
    assert_eq!((job.started_at, job.updated_at, job.completed_at), (Some(now), now, None));
    assert_eq!((attempts.len(), attempts[0].number, attempts[0].started_at), (1, 1, now));
    assert_eq!(attempts[0].completed_at, None);
    assert!(w.claim(now, &[]).await.is_empty());
}

pub async fn only_jobs_that_may_start_are_claimed(w: &World) {
    let id = w.schedule().await;
    let done = w.manual_job(id, minute(1)).await;
    w.run(minute(1), done, AttemptEnd::Succeeded).await;
    let running = w.manual_job(id, minute(1)).await;
    w.claim(minute(1), &[running]).await;
    let cancelled = w.manual_job(id, minute(1)).await;
    w.store.cancel_job(&w.write(minute(1)), cancelled).await.expect("cancel");
    let later = w.manual_job(id, minute(3)).await;
    let jobs = [done, running, cancelled, later];
    assert!(w.claim(minute(3).minus(Duration::from_millis(1)), &jobs).await.is_empty());
    let claimed = w.claim(minute(3), &jobs).await;
    assert_eq!(claimed.iter().map(|claimed| claimed.job).collect::<Vec<_>>(), [later]);
}

pub async fn attempts_are_numbered_and_limited(w: &World) {
    let id = w.schedule().await;
    let job = w.manual_job(id, minute(0)).await;
    for attempt in 1..=3 {
        let at = minute(attempt);
        let claimed = w.claim(at, &[job]).await;
        assert_eq!(i64::from(claimed[0].attempt), attempt);
        assert!(w.claim(soon(at), &[job]).await.is_empty(), "never two at once");
        let end =
            w.completion(&claimed[0], None, AttemptEnd::Retry(failure(), minute(attempt + 1)));
        w.commit(at, &[end]).await;
    }
    assert_eq!(w.status(job).await, JobStatus::Failed);
    assert!(w.claim(minute(9), &[job]).await.is_empty());
    let (_, attempts) = w.job_and_attempts(job).await;
    assert_eq!(attempts.iter().map(|attempt| attempt.number).collect::<Vec<_>>(), [1, 2, 3]);
}

pub async fn renewing_extends_all_claims_of_one_executor(w: &World) {
    let id = w.schedule().await;
    let [a, b, others] = [1, 1, 1].map(|at| w.manual_job(id, minute(at)));
    let [a, b, others] = [a.await, b.await, others.await];
    w.claim(minute(1), &[a]).await;
    w.claim(minute(1), &[b]).await;
    let other = w.others_claim(5, minute(1)).await;
    w.store.claim(&other, &[others]).await.expect("claim");
    let renew = async |until| {
        w.store.renew(w.executor, until, minute(2)).await.expect("renew");
        let expired = w.store.expired(minute(2), 9).await.expect("read");
        let mut jobs: Vec<_> = expired.into_iter().map(|claim| claim.job).collect();
        jobs.sort_unstable();
        jobs
    };
    assert_eq!(renew(minute(1)).await.len(), 3, "a renewal that comes late takes nothing back");
    assert_eq!(renew(minute(2)).await, [others]);
    assert_eq!(renew(minute(1)).await, [others]);
}

pub async fn without_a_lease_nothing_is_claimed(w: &World) {
    let id = w.schedule().await;
    let job = w.manual_job(id, minute(1)).await;
    let claim = ClaimRequest { executor: ExecutorId(77), ..w.claim_at(minute(1)) };
    assert_eq!(w.store.claim(&claim, &[job]).await.expect("claim"), ClaimedJobs::default());
    let firing = w.firing(id).await;
    let now = soon(minute(1));
    let started =
        w.store.fire_and_claim(&[w.fence], &ClaimRequest { now, ..claim }, &[firing]).await;
    assert_eq!(started.expect("fire").1, ClaimedJobs::default());
    assert_eq!(w.claim(minute(1), &[job]).await.len(), 1, "it waits for another one");
}

/// An expired lease is removed, unless claims under it exist.
pub async fn leases_are_removed_when_no_claim_needs_them(w: &World) {
    let id = w.schedule().await;
    let [lost, late] = [w.manual_job(id, minute(1)).await, w.manual_job(id, minute(1)).await];
    let [with, without] = [w.others_claim(5, minute(1)).await, w.others_claim(6, minute(1)).await];
    assert_eq!(w.store.claim(&with, &[lost]).await.expect("claim").taken.len(), 1);
    let renew_at = async |now| w.store.renew(w.executor, minute(99), now).await.expect("renew");
    renew_at(lease_end().plus(Duration::from_mins(1))).await;
    assert_eq!(w.store.claim(&without, &[late]).await.expect("claim").taken.len(), 1, "not yet");
    let claimed = w.store.expired(minute(98), 9).await.expect("read");
    assert_eq!(claimed.len(), 2);
    let end = |claim: &RecordedAttempt| Completion {
        job: claim.job,
        attempt: claim.attempt,
        executor: claim.executor,
        run: None,
        completed_at: minute(3),
        exchange: None,
        end: AttemptEnd::Retry(failure(), minute(3)),
    };
    let of_six = claimed.iter().find(|claim| claim.executor == without.executor);
    w.commit(minute(3), &[end(of_six.expect("claimed"))]).await;
    renew_at(lease_end().plus(Duration::from_mins(1)).plus(Duration::from_millis(1))).await;
    assert_eq!(
        w.store.claim(&without, &[late]).await.expect("claim"),
        ClaimedJobs::default(),
        "gone"
    );
    let left = w.store.expired(minute(98), 9).await.expect("read");
    assert_eq!(left.iter().map(|claim| claim.job).collect::<Vec<_>>(), [lost], "still lost");
}

pub async fn late_ones_are_found_oldest_first(w: &World) {
    let id = w.schedule().await;
    let third = w.manual_job(id, minute(3)).await;
    let first = w.manual_job(id, minute(1)).await;
    let second = w.manual_job(id, minute(2)).await;
    let running = w.manual_job(id, minute(1)).await;
    w.claim(minute(1), &[running]).await;
    let late = async |before, limit| -> Vec<JobId> {
        let tickets = w.store.late(before, None, limit).await.expect("read");
        assert!(tickets.iter().all(|ticket| ticket.host == super::world::HOST));
        assert!(tickets.iter().all(|ticket| ticket.account == w.account));
        tickets.iter().map(|ticket| ticket.job).collect()
    };
    assert_eq!(late(minute(9), 9).await, [first, second, third]);
    assert_eq!(late(minute(9), 2).await, [first, second]);
    assert_eq!(late(minute(2), 9).await, [first], "before, not at");
    w.run(minute(3), first, AttemptEnd::Retry(failure(), minute(5))).await;
    assert_eq!(late(minute(9), 9).await, [second, third, first]);
    assert_eq!(w.store.late(minute(9), None, 9).await.expect("read")[2].start, minute(5));
}

pub async fn late_ones_are_found_page_by_page(w: &World) {
    let id = w.schedule().await;
    // Many jobs with the same start, as from one firing, around the ends of pages.
    let mut expected = Vec::new();
    for (start, count) in [(1, 3), (2, 8), (3, 4)] {
        let mut jobs = Vec::new();
        for _ in 0..count {
            jobs.push(w.manual_job(id, minute(start)).await);
        }
        jobs.sort_unstable();
        expected.extend(jobs);
    }
    for limit in [1, 4, 7, 15, 16] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = w.store.late(minute(9), after, limit).await.expect("read");
            found.extend(page.iter().map(|ticket| ticket.job));
            after = page.last().map(|last| (last.start, last.job));
            if page.len() < limit as usize {
                break;
            }
        }
        assert_eq!(found, expected, "in pages of {limit}");
    }
    let last = Some((minute(3), expected[14]));
    assert!(w.store.late(minute(9), last, 9).await.expect("read").is_empty());
}

pub async fn lost_claims_are_found_oldest_first(w: &World) {
    let id = w.schedule().await;
    let [a, b] = [w.manual_job(id, minute(1)).await, w.manual_job(id, minute(1)).await];
    let ends = |at: i64| minute(at).plus(Duration::from_secs(30));
    let other = w.others_claim(5, minute(1)).await;
    w.store.renew(w.executor, ends(2), minute(1)).await.expect("renew");
    w.claim(minute(1), &[b]).await;
    w.store.claim(&other, &[a]).await.expect("claim");
    let lost = |job, executor, at| RecordedAttempt {
        job,
        attempt: 1,
        max_attempts: 3,
        executor,
        until: ends(at),
    };
    let (a, b) = (lost(a, other.executor, 1), lost(b, w.executor, 2));
    let expired = async |before, limit| w.store.expired(before, limit).await.expect("read");
    assert_eq!(expired(minute(9), 9).await, [a, b]);
    assert_eq!(expired(minute(9), 1).await, [a]);
    assert_eq!(expired(ends(2), 9).await, [a], "before, not at");
    assert!(expired(ends(1), 9).await.is_empty());
}

pub async fn the_claims_of_an_executor_are_found_by_their_beginning(w: &World) {
    let id = w.schedule().await;
    let [early, late, others] =
        [w.manual_job(id, minute(1)), w.manual_job(id, minute(1)), w.manual_job(id, minute(1))];
    let [early, late, others] = [early.await, late.await, others.await];
    w.store.renew(w.executor, minute(5), minute(1)).await.expect("renew");
    let first = w.claim(minute(1), &[early]).await.remove(0);
    w.claim(minute(2), &[late]).await;
    let other = w.others_claim(5, minute(1)).await;
    w.store.claim(&other, &[others]).await.expect("claim");
    let before = async |before| {
        let claims = w.store.claims_of(w.executor, before).await.expect("read");
        let mut jobs: Vec<_> = claims.iter().map(|claim| claim.job).collect();
        assert!(claims.iter().all(|claim| claim.executor == w.executor && claim.attempt == 1));
        jobs.sort_unstable();
        jobs
    };
    assert!(before(minute(1)).await.is_empty(), "before, not at");
    assert_eq!(before(minute(2)).await, [early]);
    let both = BTreeSet::from([early, late]);
    assert_eq!(before(minute(9)).await, both.into_iter().collect::<Vec<_>>());
    w.commit(minute(3), &[w.completion(&first, None, AttemptEnd::Retry(failure(), minute(3)))])
        .await;
    assert_eq!(before(minute(9)).await, [late], "an ended attempt has no claim");
}

pub async fn waiting_jobs_are_counted_to_a_cap(w: &World) {
    let waiting = async |at, cap| {
        let WaitingJobs { jobs, since } = w.store.waiting(minute(at), cap).await.expect("counted");
        (jobs, since)
    };
    assert_eq!(waiting(9, 10).await, (0, None));
    let id = w.schedule().await;
    for start in [2, 3, 4] {
        w.manual_job(id, minute(start)).await;
    }
    let running = w.manual_job(id, minute(1)).await;
    w.claim(minute(1), &[running]).await;
    assert_eq!(waiting(1, 10).await, (0, None), "none could have started");
    assert_eq!(waiting(3, 10).await, (2, Some(minute(2))));
    assert_eq!(waiting(9, 10).await, (3, Some(minute(2))));
    assert_eq!(waiting(9, 2).await, (2, Some(minute(2))));
}

pub async fn unfinished_jobs_are_counted_to_a_cap(w: &World) {
    assert_eq!(w.store.unfinished(10).await.expect("count"), 0);
    let id = w.schedule().await;
    let done = w.manual_job(id, minute(1)).await;
    w.run(minute(1), done, AttemptEnd::Succeeded).await;
    for _ in 0..4 {
        w.manual_job(id, minute(1)).await;
    }
    let running = w.manual_job(id, minute(1)).await;
    w.claim(minute(1), &[running]).await;
    assert_eq!(w.store.unfinished(10).await.expect("count"), 5);
    assert_eq!(w.store.unfinished(3).await.expect("count"), 3);
    w.store.ping().await.expect("it answers");
}

pub async fn the_late_jobs_of_each_account_are_found_beside_those_of_others(w: &World) {
    let own = w.schedule().await;
    let foreign = w.new_schedule();
    let write = w.write_for(w.foreign, minute(0));
    w.store.create_schedules(&write, std::slice::from_ref(&foreign), None).await.expect("create");
    let mut jobs = Vec::new();
    for n in 0..i64::from(LATE_OF_EACH) + 5 {
        jobs.push(w.manual_job(own, minute(n + 1)).await);
    }
    let last = minute(90);
    let new = NewJob { id: w.job_id(last), schedule: foreign.id };
    let write = w.write_for(w.foreign, last);
    w.store.create_job(&write, &new, None).await.expect("create a job").ticket().expect("there");
    let late = async |before| {
        let (tickets, next) = w.steady.late_of_each(before, None).await.expect("read");
        assert_eq!(next, None, "there are few accounts");
        let mut found: Vec<_> = tickets.iter().map(|ticket| ticket.job).collect();
        found.sort_unstable();
        found
    };
    jobs.truncate(LATE_OF_EACH as usize);
    assert_eq!(late(last).await, jobs, "the oldest, and none that is not late");
    jobs.push(new.id);
    assert_eq!(late(minute(91)).await, jobs);
    let claimed = w.claim(minute(91), &jobs[..1]).await;
    assert_eq!(claimed.len(), 1);
    assert!(!late(minute(91)).await.contains(&jobs[0]), "it runs");
    let after = w.account.max(w.foreign);
    let (none, next) = w.steady.late_of_each(minute(91), Some(after)).await.expect("read");
    assert_eq!((none, next), (vec![], None));
}
