//! Ends of attempts that are written while another session changes their jobs.

use punctual::domain::job::JobStatus;
use punctual::domain::outcome::{ErrorCode, Failure};
use punctual::store::{AttemptEnd, Completion, CompletionResult, SharedStore};
use sqlx::Connection;

use super::super::world::minute;
use super::interference::{CANCELLED, CLAIMED_BY_OTHER, NEXT_ATTEMPT, RELEASED, STOPPED, TOUCHED};
use super::locks::{until_one_waits, until_so_many_wait};
use super::world;
use crate::harness::database::{Database, run};

fn failed() -> Failure {
    Failure { code: ErrorCode::Timeout, message: "late".into(), retryable: true }
}

async fn commit(store: SharedStore, ends: [Completion; 1]) -> Vec<CompletionResult> {
    store.commit(minute(2), &ends).await.expect("commit").results
}

/// A commit decides on the job as its claim returned it, or as it was read without a lock. If
/// another session changes the job before the write, the commit decides again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_is_written_for_the_job_as_it_is_then() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let (mut holder, mut other_session) =
        (database.second_connection().await, database.second_connection().await);
    let fails = || AttemptEnd::Failed(failed());
    let retries = || AttemptEnd::Retry(failed(), minute(9));
    let cases = [
        (CANCELLED, AttemptEnd::Succeeded, CompletionResult::Applied(JobStatus::Success), 0),
        (STOPPED, retries(), CompletionResult::Applied(JobStatus::Failed), 0),
        (CANCELLED, retries(), CompletionResult::Applied(JobStatus::Failed), 0),
        (TOUCHED, retries(), CompletionResult::Applied(JobStatus::Pending), 0),
        (TOUCHED, fails(), CompletionResult::Applied(JobStatus::Failed), 1),
        (STOPPED, fails(), CompletionResult::Applied(JobStatus::Failed), 1),
        (RELEASED, fails(), CompletionResult::Lost, 0),
        (CLAIMED_BY_OTHER, AttemptEnd::Succeeded, CompletionResult::Lost, 0),
        (NEXT_ATTEMPT, retries(), CompletionResult::Lost, 0),
    ];
    let each_way = cases.into_iter().flat_map(|case| [(case.clone(), true), (case, false)]);
    for ((change, end, result, failures), told) in each_way {
        let id = w.schedule().await;
        let job = w.manual_job(id, minute(1)).await;
        let claimed = w.claim(minute(1), &[job]).await.remove(0);
        let mut changed = holder.begin().await.expect("begin");
        let uuid = sqlx::types::Uuid::from_bytes(job.to_bytes());
        run(&mut changed, "SELECT FROM schedule_state FOR UPDATE").await;
        run(&mut changed, &format!("UPDATE runs SET {change} WHERE id = '{uuid}'")).await;
        let mut ends = [w.completion(&claimed, None, end)];
        ends[0].run = ends[0].run.filter(|_| told);
        let store = w.store.clone();
        let committed = w.spawn(commit(store.clone(), ends.clone()));
        until_one_waits(&mut other_session).await;
        changed.commit().await.expect("commit");
        let mut results = committed.await;
        // On a slow machine the commit has given up waiting.
        while results == [CompletionResult::Busy] {
            results = commit(store.clone(), ends.clone()).await;
        }
        assert_eq!(results, [result], "{change}");
        assert_eq!(w.read(id).await.consecutive_failures, failures, "{change}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_retry_slips_through_the_deletion_of_its_schedule() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let (mut holder, mut other_session) =
        (database.second_connection().await, database.second_connection().await);
    let id = w.schedule().await;
    let job = w.manual_job(id, minute(1)).await;
    let claimed = w.claim(minute(1), &[job]).await.remove(0);
    let mut held = holder.begin().await.expect("begin");
    run(&mut held, "SELECT FROM runs FOR UPDATE").await;
    let ends = [w.completion(&claimed, None, AttemptEnd::Retry(failed(), minute(9)))];
    let committed = w.spawn(commit(w.store.clone(), ends.clone()));
    until_one_waits(&mut other_session).await;
    let (store, write) = (w.store.clone(), w.write(minute(2)));
    let deleted = w.spawn(async move { store.delete_schedule(&write, id).await });
    until_so_many_wait(&mut other_session, 2).await;
    held.rollback().await.expect("roll back");
    deleted.await.expect("delete");
    // On a slow machine the commit has given up waiting.
    if committed.await == [CompletionResult::Busy] {
        commit(w.store.clone(), ends).await;
    }
    assert_eq!(w.status(job).await, JobStatus::Failed, "it is not tried again");
}
