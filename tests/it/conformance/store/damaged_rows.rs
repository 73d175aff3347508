//! Rows that cannot be read back. Each adapter damages rows in its own way; the effects are the
//! same.

use punctual::domain::job::JobStatus;
use punctual::domain::outcome::ErrorCode;
use punctual::domain::{JobId, ScheduleId};
use punctual::store::{AttemptEnd, DeliveryContent};

use super::alerts::ONE_BY_ONE;
use super::world::{SHARD, World, definition, minute};
use crate::harness::states::{running, waiting};

/// Statements that damage the marked version.
const OF_VERSIONS: [&str; 2] = [
    "UPDATE schedule_versions SET http_method = 'BREW' WHERE timezone = 'marked'",
    "UPDATE schedule_versions SET max_retries = 700 WHERE timezone = 'marked'",
];

const MEND: &str = "UPDATE schedule_versions SET http_method = 'POST', max_retries = 3";

/// Creates a schedule that the damage statements hit.
async fn marked(w: &World) -> ScheduleId {
    let definition =
        punctual::domain::schedule::Definition { timezone: "marked".into(), ..definition() };
    w.schedule_with(|new| new.version = w.new_version(definition)).await
}

/// `spoil` runs a statement directly on the database.
pub async fn a_damaged_version_fails_its_job_alone(w: &World, spoil: impl AsyncFn(&'static str)) {
    for damage in OF_VERSIONS {
        let (fine, damaged) = (w.schedule().await, marked(w).await);
        let mut jobs = Vec::new();
        for index in 0..120 {
            let id = if index == 70 { damaged } else { fine };
            jobs.push(w.manual_job(id, minute(1)).await);
        }
        spoil(damage).await;
        let claims = w.store.claim(&w.claim_at(minute(1)), &jobs).await.expect("claim");
        assert_eq!(claims.taken.len(), 119, "{damage}");
        let bad = jobs.remove(70);
        assert!(claims.taken.iter().map(|claimed| claimed.job).eq(jobs));
        let [unreadable] = &claims.unreadable[..] else { panic!("{:?}", claims.unreadable) };
        assert_eq!((unreadable.job, unreadable.attempt), (bad, 1));
        let failure = unreadable.failure.clone();
        assert_eq!((failure.code, failure.retryable), (ErrorCode::Internal, false));
        assert!(!failure.message.contains("BREW"), "{}", failure.message);
        // It runs and ends like any other job.
        let mut end = w.completion(&claims.taken[0], None, AttemptEnd::Failed(failure));
        end.job = bad;
        w.commit(minute(1), &[end]).await;
        spoil(MEND).await;
        let (job, _) = w.job_and_attempts(bad).await;
        assert_eq!((job.status, job.attempt_number), (JobStatus::Failed, 1));
        let ends =
            claims.taken.iter().map(|claimed| w.completion(claimed, None, AttemptEnd::Succeeded));
        w.commit(minute(1), &ends.collect::<Vec<_>>()).await;
        assert_eq!(w.store.unfinished(9).await.expect("count"), 0, "nothing comes back");
    }
}

pub async fn a_damaged_schedule_is_no_candidate(w: &World, spoil: impl AsyncFn(&'static str)) {
    let mut ids = Vec::new();
    for _ in 0..9 {
        ids.push(w.schedule().await);
    }
    ids.push(w.schedule_with(|new| new.name = "marked".into()).await);
    spoil("UPDATE schedules SET catch_up_policy = 'maybe' WHERE name = 'marked'").await;
    let wanted: Vec<_> = ids.iter().map(|id| (SHARD, *id)).collect();
    let found = w.store.candidates(&wanted, minute(2)).await.expect("read");
    let mut found: Vec<ScheduleId> = found.iter().map(|candidate| candidate.schedule).collect();
    found.sort_unstable();
    let mut fine = ids[..9].to_vec();
    fine.sort_unstable();
    assert_eq!(found, fine);
}

pub async fn damaged_jobs_do_not_stop_the_job_rescuer(
    w: &World,
    spoil: impl AsyncFn(&'static str),
) {
    let id = w.schedule().await;
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(w.manual_job(id, minute(1)).await);
    }
    let [waits, damaged_waits, runs, damaged_runs] = jobs[..] else { panic!("four") };
    w.claim(minute(1), &[damaged_waits]).await;
    spoil(concat!(
        "UPDATE runs SET shard = 70000, wake_at = 1, attempt_number = 0, ",
        waiting!(),
        " WHERE ",
        running!()
    ))
    .await;
    w.claim(minute(1), &[damaged_runs]).await;
    spoil(concat!("UPDATE runs SET max_attempts = 700 WHERE ", running!())).await;
    w.claim(minute(1), &[runs]).await;
    let late = w.store.late(minute(9), None, 9).await.expect("read");
    let late: Vec<JobId> = late.iter().map(|ticket| ticket.job).collect();
    assert_eq!(late, [waits]);
    let expired = w.store.expired(minute(9), 9).await.expect("read");
    assert_eq!(expired.iter().map(|claim| claim.job).collect::<Vec<_>>(), [runs]);
}

pub async fn damaged_rows_stop_no_alerts(w: &World, spoil: impl AsyncFn(&'static str)) {
    let channel = w.channel("ops").await;
    let (fine, damaged) = (w.schedule().await, marked(w).await);
    let newer = w.schedule_with(|new| new.name = "newer".into()).await;
    for id in [fine, damaged, newer] {
        w.tell_failures(id, &[channel]).await;
        w.fail(id, 2).await;
    }
    // An event of an unknown kind waits for a newer release.
    let unknown = "UPDATE notification_events SET type = 'job.odd' WHERE schedule_name = 'newer'";
    spoil(unknown).await;
    assert_eq!(w.relay(minute(3), &ONE_BY_ONE).await.events, 2);
    assert!(w.work(minute(3)).await.relay);
    spoil("UPDATE notification_events SET type = 'job.failed'").await;
    assert_eq!(w.relay(minute(3), &ONE_BY_ONE).await.events, 1);
    spoil("UPDATE notification_deliveries SET type = 'job.odd' WHERE schedule_name = 'newer'")
        .await;
    spoil(OF_VERSIONS[0]).await;
    let taken = w.claim_due(minute(3)).await.taken;
    assert_eq!(taken.len(), 2);
    let gone = taken.iter().filter(|one| one.content == DeliveryContent::Gone);
    assert_eq!(gone.count(), 1, "the sender reports it");
    spoil("UPDATE notification_deliveries SET type = 'job.failed'").await;
    assert_eq!(w.claim_due(minute(3)).await.taken.len(), 1);
    spoil(MEND).await;
}
