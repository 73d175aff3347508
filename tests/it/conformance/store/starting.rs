use std::time::Duration;

use punctual::domain::job::JobStatus;
use punctual::domain::schedule::{Definition, OverlapPolicy, SkipReason};
use punctual::domain::shard::Epoch;
use punctual::domain::{JobId, ScheduleId};
use punctual::store::{
    AttemptEnd, ClaimRequest, ClaimedJobs, Fence, Fired, Firing, ScheduleState, StoreErrorKind,
    TickRange,
};

use super::world::{SHARD, World, definition, every_job, fenced, minute, soon};

/// Fires the next ticks of schedules and claims their jobs.
async fn start(w: &World, claim: &ClaimRequest, ids: &[ScheduleId]) -> (Fired, ClaimedJobs) {
    let mut firings = Vec::new();
    for id in ids {
        firings.push(w.firing(*id).await);
    }
    w.store.fire_and_claim(&[w.fence], claim, &firings).await.expect("fire and claim")
}

fn jobs(claims: &ClaimedJobs) -> Vec<JobId> {
    let mut jobs: Vec<JobId> = claims.taken.iter().map(|claimed| claimed.job).collect();
    jobs.sort_unstable();
    jobs
}

pub async fn fired_jobs_are_claimed(w: &World) {
    let id = w.schedule().await;
    let claim = w.claim_at(soon(minute(1)));
    let (fired, claims) = start(w, &claim, &[id]).await;
    let Fired { tickets, held, advanced, .. } = fired;
    assert_eq!((tickets, held), (vec![], vec![]));
    assert_eq!(advanced, [(id, Some(minute(2)))]);
    let job = JobId::of_tick(id, minute(1));
    let expected = w.first_claimed(id, job, claim.now).await;
    assert_eq!(claims, ClaimedJobs { taken: vec![expected.clone()], unreadable: vec![] });
    let (read, attempts) = w.job_and_attempts(job).await;
    assert_eq!((read.status, read.attempt_number), (JobStatus::Running, 1));
    assert_eq!((read.created_at, read.updated_at), (claim.now, claim.now));
    assert_eq!((read.started_at, read.completed_at), (Some(claim.now), None));
    assert_eq!((attempts.len(), attempts[0].number), (1, 1));
    assert_eq!(attempts[0].started_at, claim.now);
    assert_eq!(w.store.late(minute(99), None, 9).await.expect("read"), []);
    let expired = w.store.expired(minute(9), 9).await;
    let expired = expired.expect("read");
    assert_eq!((expired.len(), expired[0].job, expired[0].executor), (1, job, w.executor));
    let completion = w.completion(&expected, None, AttemptEnd::Succeeded);
    w.commit(soon(minute(1)), &[completion]).await;
    assert_eq!(w.job(job).await.status, JobStatus::Success);
}

pub async fn started_jobs_are_handed_to_no_other_executor(w: &World) {
    let id = w.schedule().await;
    let claim = w.claim_at(soon(minute(1)));
    start(w, &claim, &[id]).await;
    let job = JobId::of_tick(id, minute(1));
    let other = w.others_claim(7, claim.now).await;
    let later = w.claim_at(soon(minute(2)));
    for claim in [other, later] {
        assert_eq!(w.store.claim(&claim, &[job]).await.expect("claim"), ClaimedJobs::default());
    }
}

pub async fn a_claim_is_recalled_and_takes_nothing_more(w: &World) {
    let id = w.schedule().await;
    let (job, new) = (w.manual_job(id, minute(1)).await, w.manual_job(id, minute(1)).await);
    let claim = w.claim_at(soon(minute(1)));
    let recall =
        async |claim: &ClaimRequest| w.store.recall(claim, &[new, job]).await.expect("recall");
    assert_eq!(recall(&claim).await, ClaimedJobs::default(), "nothing was claimed");
    let first = w.store.claim(&claim, &[job]).await.expect("claim");
    assert_eq!(jobs(&first), [job]);
    assert_eq!(recall(&claim).await, first, "no attempt is lost with the answer");
    assert_eq!(recall(&claim).await, first, "the call can be repeated");
    assert_eq!(w.store.recall(&claim, &[]).await.expect("recall"), ClaimedJobs::default());
    assert_eq!(w.job(job).await.attempt_number, 1);
    assert_eq!(w.job(new).await.status, JobStatus::Pending, "new jobs are left alone");
    let other = w.others_claim(7, claim.now).await;
    let later = ClaimRequest { now: claim.now.plus(Duration::from_millis(1)), ..claim };
    for claim in [other, later] {
        assert_eq!(recall(&claim).await, ClaimedJobs::default(), "it is another one's");
    }
    assert_eq!(w.store.claim(&claim, &[job]).await.expect("claim"), ClaimedJobs::default());
    w.commit(soon(minute(1)), &[w.completion(&first.taken[0], None, AttemptEnd::Succeeded)]).await;
    assert_eq!(recall(&claim).await, ClaimedJobs::default(), "it ended");
}

pub async fn a_lost_answer_is_recalled(w: &World) {
    let signed = Definition { sign_requests: true, ..definition() };
    let ids =
        [w.schedule().await, w.schedule_with(|new| new.version = w.new_version(signed)).await];
    let claim = w.claim_at(soon(minute(1)));
    let (_, claims) = start(w, &claim, &ids).await;
    let mut made = ids.map(|id| JobId::of_tick(id, minute(1)));
    made.sort_unstable();
    assert_eq!(jobs(&claims), made);
    let again = w.store.recall(&claim, &made).await.expect("recall");
    assert_eq!(jobs(&again), made);
    assert!(again.taken.iter().all(|claimed| claims.taken.contains(claimed)), "{again:?}");
}

pub async fn starting_again_changes_nothing(w: &World) {
    let id = w.schedule().await;
    let firing = w.firing(id).await;
    let claim = w.claim_at(soon(minute(1)));
    start(w, &claim, &[id]).await;
    let other = w.others_claim(7, claim.now).await;
    let again = w.store.fire_and_claim(&[w.fence], &other, &[firing]).await.expect("fire");
    let stale = Fired { stale: vec![id], ..Fired::default() };
    assert_eq!(again, (stale, ClaimedJobs::default()));
    assert_eq!(w.listed(&every_job()).await.len(), 1);
}

pub async fn a_restarted_job_sends_the_request_of_its_version(w: &World) {
    let signed = Definition { sign_requests: true, ..definition() };
    let id = w.schedule().await;
    let signing = w.schedule_with(|new| new.version = w.new_version(signed.clone())).await;
    let ids = [id, signing];
    let sent = async |tick: i64| {
        let (_, claims) = start(w, &w.claim_at(soon(minute(tick))), &ids).await;
        let sent = |id: ScheduleId| {
            let claimed = claims.taken.iter().find(|claimed| claimed.schedule == id);
            let claimed = claimed.expect("started");
            (claimed.definition.clone(), claimed.signing_secrets.len())
        };
        ids.map(sent)
    };
    for tick in [1, 2] {
        assert_eq!(sent(tick).await, [(definition(), 0), (signed.clone(), 1)], "tick {tick}");
    }
    let changed = Definition { headers: Some("{\"x-b\":\"2\"}".into()), ..definition() };
    let change =
        ScheduleState { version: Some(w.new_version(changed.clone())), ..w.change(id).await };
    w.store.change_schedule(&w.write(minute(2)), id, &change).await.expect("change");
    for tick in [3, 4] {
        assert_eq!(sent(tick).await, [(changed.clone(), 0), (signed.clone(), 1)], "tick {tick}");
    }
}

pub async fn others_start_beside_a_job_that_exists(w: &World) {
    for (policy, has_skips) in
        [(OverlapPolicy::Allow, false), (OverlapPolicy::Allow, true), (OverlapPolicy::Skip, false)]
    {
        let id = w.schedule().await;
        let other = w.schedule_with(|new| new.overlap_policy = policy).await;
        let job = w.tick_job(id).await;
        let change = ScheduleState { next_tick: Some(minute(1)), ..w.change(id).await };
        w.store.change_schedule(&w.write(minute(2)), id, &change).await.expect("change");
        let mut firings = [w.firing(id).await, w.firing(other).await];
        if has_skips {
            let range = TickRange { first: minute(0), last: minute(0), count: 1 };
            for firing in &mut firings {
                firing.skips = vec![(range, SkipReason::CatchUp)];
            }
        }
        let started = w.store.fire_and_claim(&[w.fence], &w.claim_at(minute(3)), &firings).await;
        let (fired, claims) = started.expect("fire and claim");
        let Fired { tickets, advanced, .. } = fired;
        let started = tickets.iter().map(|ticket| ticket.job).chain(jobs(&claims));
        assert_eq!(started.collect::<Vec<_>>(), [JobId::of_tick(other, minute(1))]);
        assert_eq!(advanced.len(), 2);
        assert_eq!(w.job(job).await.status, JobStatus::Pending, "its ticket is where it was");
    }
}

pub async fn an_older_epoch_starts_nothing(w: &World) {
    let id = w.schedule().await;
    let firing = w.firing(id).await;
    let claim = w.claim_at(soon(minute(1)));
    let old = Fence { shard: SHARD, epoch: Epoch(w.fence.epoch.0 - 1) };
    let fired = w.store.fire_and_claim(&[old], &claim, &[firing]).await.expect("fire");
    assert_eq!(fired, (fenced(), ClaimedJobs::default()));
    assert!(w.listed(&every_job()).await.is_empty());
}

pub async fn each_job_of_a_mixed_batch_starts_or_has_a_ticket(w: &World) {
    let mut ids = Vec::new();
    for policy in [OverlapPolicy::Allow, OverlapPolicy::Skip, OverlapPolicy::QueueOne] {
        ids.push(w.schedule_with(|new| new.overlap_policy = policy).await);
    }
    let claim = w.claim_at(soon(minute(1)));
    let (fired, claims) = start(w, &claim, &ids).await;
    let Fired { tickets, advanced, .. } = fired;
    let mut all: Vec<JobId> = tickets.iter().map(|ticket| ticket.job).collect();
    all.extend(jobs(&claims));
    all.sort_unstable();
    let mut made: Vec<JobId> = ids.iter().map(|id| JobId::of_tick(*id, minute(1))).collect();
    made.sort_unstable();
    assert_eq!((all, advanced.len()), (made, 3));
    assert!(jobs(&claims).contains(&JobId::of_tick(ids[0], minute(1))), "nothing holds it");
    let left: Vec<JobId> = tickets.iter().map(|ticket| ticket.job).collect();
    assert_eq!(w.claim(soon(minute(1)), &left).await.len(), left.len());
}

pub async fn started_jobs_bring_their_signing_secrets(w: &World) {
    let signed = Definition { sign_requests: true, ..definition() };
    let id = w.schedule_with(|new| new.version = w.new_version(signed)).await;
    let (_, claims) = start(w, &w.claim_at(soon(minute(1))), &[id]).await;
    let known = w.store.signing_secrets(w.account).await.expect("list");
    let known: Vec<_> = known.into_iter().filter_map(|known| known.secret).collect();
    assert_eq!((known.len(), &claims.taken[0].signing_secrets), (1, &known));
}

pub async fn firings_against_the_rules_are_refused(w: &World) {
    let id = w.schedule().await;
    let firing = w.firing(id).await;
    let early = w.claim_at(minute(1).minus(Duration::from_millis(1)));
    let back = Firing { next_tick: Some(firing.tick), ..firing.clone() };
    let now = w.claim_at(soon(minute(1)));
    for (claim, firing) in [(early, firing), (now, back)] {
        let error = w.store.fire_and_claim(&[w.fence], &claim, &[firing]).await;
        assert_eq!(error.expect_err("against the rules").kind(), StoreErrorKind::Rejected);
    }
    assert!(w.listed(&every_job()).await.is_empty());
}
