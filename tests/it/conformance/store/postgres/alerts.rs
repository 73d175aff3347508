//! Events of commits that meet concurrent changes or locked rows, and claims of deliveries around
//! locked rows.

use punctual::domain::job::JobStatus;
use punctual::store::{AttemptEnd, ClaimedJob, Completion, CompletionResult};
use sqlx::Connection;
use sqlx::types::Uuid;

use super::super::alerts::{ONE_BY_ONE, commits_raise};
use super::super::world::{World, failure, minute};
use super::interference::{CANCELLED, NEXT_ATTEMPT, STOPPED, TOUCHED};
use super::locks::{until_one_waits, without_waiting};
use super::{prepare, world};
use crate::harness::database::{Database, run};

/// Returns a running job of a schedule that reports its failures.
async fn running(w: &World) -> ClaimedJob {
    let id = w.schedule().await;
    w.tell_failures(id, &[]).await;
    let job = w.manual_job(id, minute(1)).await;
    w.claim(minute(1), &[job]).await.remove(0)
}

fn fails(w: &World, claimed: &ClaimedJob) -> Completion {
    w.completion(claimed, None, AttemptEnd::Failed(failure()))
}

/// A commit starts again if another session has changed the job. It raises the events of its second
/// decision only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_begins_again_raises_its_events_once() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let (mut holder, mut other_session) =
        (database.second_connection().await, database.second_connection().await);
    let mut raised = 0;
    for (change, result, events) in [
        (TOUCHED, CompletionResult::Applied(JobStatus::Failed), 1),
        (STOPPED, CompletionResult::Applied(JobStatus::Failed), 1),
        (CANCELLED, CompletionResult::Applied(JobStatus::Failed), 0),
        (NEXT_ATTEMPT, CompletionResult::Lost, 0),
    ] {
        let claimed = running(&w).await;
        let mut changed = holder.begin().await.expect("begin");
        let job = Uuid::from_bytes(claimed.job.to_bytes());
        run(&mut changed, "SELECT FROM schedule_state FOR UPDATE").await;
        run(&mut changed, &format!("UPDATE runs SET {change} WHERE id = '{job}'")).await;
        let (store, end) = (w.store.clone(), fails(&w, &claimed));
        let commit = async move |end| store.commit(minute(2), &[end]).await;
        let committed = w.spawn({
            let (commit, end) = (commit.clone(), end.clone());
            async move { commit(end).await.expect("commit") }
        });
        until_one_waits(&mut other_session).await;
        changed.commit().await.expect("commit");
        let mut committed = committed.await;
        // On a slow machine the commit has given up waiting.
        while committed.results == [CompletionResult::Busy] {
            assert_eq!(committed.events, 0);
            committed = commit(end.clone()).await.expect("commit");
        }
        assert_eq!((&committed.results[..], committed.events), (&[result][..], events), "{change}");
        raised += events;
    }
    assert_eq!(w.relay(minute(3), &ONE_BY_ONE).await.events, raised);
}

/// History has a partition for each day. A commit that raises events opens only those of its jobs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_raises_events_opens_only_the_days_of_its_jobs() {
    let database = Database::migrated().await;
    prepare(&database.open(), minute(0)).await;
    let w = world(&database).await;
    let claimed = running(&w).await;
    let mut other = database.second_connection().await;
    let mut hold = other.begin().await.expect("begin");
    for day in ["20240514", "20240516"] {
        run(&mut hold, &format!("LOCK TABLE jobs_{day} IN ACCESS EXCLUSIVE MODE")).await;
    }
    let batch = [fails(&w, &claimed)];
    let committed = w.store.commit(minute(2), &batch).await.expect("commit");
    assert_eq!(committed.results, [CompletionResult::Applied(JobStatus::Failed)]);
    assert_eq!(committed.events, 1);
}

/// An outcome that is left out of a batch, because its rows are locked, raises its events when it
/// is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_past_held_rows_raises_the_events_of_what_it_writes() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let mut other = database.second_connection().await;
    for table in ["schedule_state WHERE schedule_id", "runs WHERE id"] {
        let (free, held) = (running(&w).await, running(&w).await);
        let id = match table {
            "runs WHERE id" => held.job.to_bytes(),
            _ => held.schedule.to_bytes(),
        };
        let mut hold = other.begin().await.expect("begin");
        let id = Uuid::from_bytes(id);
        run(&mut hold, &format!("SELECT FROM {table} = '{id}' FOR UPDATE")).await;
        let batch = [fails(&w, &free), fails(&w, &held)];
        let committed = w.store.commit(minute(2), &batch).await.expect("commit");
        assert_eq!(
            committed.results,
            [CompletionResult::Applied(JobStatus::Failed), CompletionResult::Busy]
        );
        assert_eq!(committed.events, 1);
        hold.rollback().await.expect("roll back");
        let committed = w.store.commit(minute(2), &batch).await;
        let committed = committed.expect("commit");
        assert_eq!(
            committed.results,
            [CompletionResult::Lost, CompletionResult::Applied(JobStatus::Failed)]
        );
        assert_eq!(committed.events, 1);
    }
    assert_eq!(w.relay(minute(3), &ONE_BY_ONE).await.events, 4);
}

/// A commit that passes over a locked row reads data that other commits take from their claims.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_past_a_locked_row_raise_the_events_of_the_policy() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let held = running(&w).await;
    let mut other = database.second_connection().await;
    let mut hold = other.begin().await.expect("begin");
    let job = Uuid::from_bytes(held.job.to_bytes());
    run(&mut hold, &format!("SELECT FROM runs WHERE id = '{job}' FOR UPDATE")).await;
    commits_raise(&w, true, &[fails(&w, &held)]).await;
    hold.rollback().await.expect("roll back");
}

/// A claim passes over locked deliveries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_claimed_and_the_held_one_stays_due() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let channel = w.channel("ops").await;
    let id = w.schedule().await;
    w.tell_failures(id, &[channel]).await;
    w.fail_often(id, 3, minute(2)).await;
    w.relay(minute(2), &ONE_BY_ONE).await;
    let held = w.deliveries().await[1].id;
    let mut other = database.second_connection().await;
    let mut hold = other.begin().await.expect("begin");
    let uuid = Uuid::from_bytes(held.to_bytes());
    let select = format!("SELECT FROM notification_deliveries WHERE id = '{uuid}' FOR UPDATE");
    run(&mut hold, &select).await;
    let claimed = without_waiting(&database, w.claim_due(minute(3))).await.taken;
    assert_eq!(claimed.len(), 2);
    assert!(claimed.iter().all(|one| one.id != held));
    hold.rollback().await.expect("roll back");
    let claimed = w.claim_due(minute(3)).await.taken;
    assert_eq!(claimed.iter().map(|one| one.id).collect::<Vec<_>>(), [held]);
}
