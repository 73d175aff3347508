//! Daily partitions of jobs: created in advance, created on demand, and dropped when they are old.

use std::sync::Arc;
use std::time::Duration;

use punctual::domain::job::Trigger;
use punctual::domain::{JobId, Timestamp};
use punctual::store::{AttemptEnd, Firing, TickJob, UpkeepStore};
use sqlx::PgConnection;

use super::super::world::{World, every_job, minute, soon};
use super::prepare;
use crate::harness::database::{Database, run};
use crate::harness::wait::until;

const DAY: Duration = Duration::from_secs(86_400);

async fn days(other_session: &mut PgConnection, table: &str) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT replace(c.relname, $1 || '_', '') FROM pg_inherits AS i
         JOIN pg_class AS c ON c.oid = i.inhrelid
         WHERE i.inhparent = $1::regclass ORDER BY 1",
    )
    .bind(table)
    .fetch_all(other_session)
    .await
    .expect("ask")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn days_are_made_ahead_and_back_by_one_replica_of_many() {
    let database = Database::migrated().await;
    let replicas = [database.open(), database.open()];
    tokio::join!(prepare(&replicas[0], minute(0)), prepare(&replicas[1], minute(0)));
    replicas[0].prepare(minute(1)).await.expect("nothing to do");
    let mut other_session = database.second_connection().await;
    let made = days(&mut other_session, "jobs").await;
    assert_eq!((made.len(), made[0].as_str(), made[46].as_str()), (47, "20240413", "20240529"));
    assert_eq!(days(&mut other_session, "attempts").await, made);
    replicas[1].prepare(minute(0).plus(DAY)).await.expect("one day more");
    assert_eq!(days(&mut other_session, "jobs").await.last().expect("a day"), "20240530");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_that_is_missing_is_made() {
    let database = Database::migrated().await;
    let w = super::world(&database).await;
    let id = w.schedule().await;
    let old = |days: u32| minute(0).minus(DAY * days);
    let jobs: Vec<TickJob> = [31, 3, 0]
        .map(|days| TickJob { id: JobId::of_tick(id, old(days)), trigger: Trigger::CatchUp })
        .into();
    let firing = Firing { jobs: jobs.clone(), ..w.firing(id).await };
    assert_eq!(w.fire(soon(minute(1)), &[firing]).await.tickets.len(), 3);
    for job in &jobs {
        w.run(minute(2), job.id, AttemptEnd::Succeeded).await;
    }
    let by_hand = w.manual_job(id, minute(0).plus(DAY * 99)).await;
    assert_eq!(w.listed(&every_job()).await[0], by_hand);
}

/// Creates a world whose jobs are `days` old at `now`.
async fn aged(database: &Database, days: u32) -> (World, Arc<dyn UpkeepStore>, Timestamp) {
    let store = Arc::new(database.open());
    let w = World::new((store.clone(), Box::new(()))).await;
    let now = minute(0).plus(DAY * days);
    prepare(&*store, now).await;
    (w, store, now)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn days_that_are_over_are_dropped_whole() {
    let database = Database::migrated().await;
    let (w, store, now) = aged(&database, 40).await;
    let id = w.schedule().await;
    let mut jobs = Vec::new();
    for day in [0, 1, 3] {
        let at = minute(1).plus(DAY * day);
        let job = w.manual_job(id, at).await;
        w.run(at, job, AttemptEnd::Succeeded).await;
        jobs.push(job);
    }
    let mut other_session = database.second_connection().await;
    assert_eq!(days(&mut other_session, "jobs").await[..3], ["20240515", "20240516", "20240518"]);
    // The history is kept longer than the partitions need to exist, so no single rows are deleted.
    let before = now.minus(DAY * 38).plus(DAY / 4);
    assert_eq!(store.prune(before, 1).await.expect("prune").days, 2);
    assert_eq!(w.listed(&every_job()).await, [jobs[2]]);
    assert_eq!(days(&mut other_session, "jobs").await[0], "20240518");
    assert_eq!(days(&mut other_session, "attempts").await[0], "20240518");
    // With a shorter history, the rows are deleted first, and the partition when it is old enough.
    assert_eq!(store.prune(now.minus(DAY), 9).await.expect("prune").days, 1);
    assert_eq!(
        days(&mut other_session, "jobs").await[0],
        "20240523",
        "five days before 35 days ago"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_whose_job_ended_late_stays_and_is_looked_through_again_hours_later() {
    let database = Database::migrated().await;
    let (w, store, now) = aged(&database, 40).await;
    let job = w.manual_job(w.schedule().await, minute(1)).await;
    w.run(now.minus(DAY), job, AttemptEnd::Succeeded).await;
    let before = now.minus(DAY * 36);
    assert_eq!(store.prune(before, 9).await.expect("prune").days, 0);
    let mut other_session = database.second_connection().await;
    run(&mut other_session, "UPDATE jobs SET completed_at = created_at").await;
    assert_eq!(store.prune(before, 9).await.expect("prune").days, 0, "it is remembered");
    prepare(&*store, now.plus(DAY / 4)).await;
    assert_eq!(store.prune(before, 9).await.expect("prune").days, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_that_is_over_waits_for_readers_and_is_not_looked_through_again() {
    let database = Database::migrated().await;
    let (w, store, now) = aged(&database, 40).await;
    let job = w.manual_job(w.schedule().await, minute(1)).await;
    w.run(minute(1), job, AttemptEnd::Succeeded).await;
    let mut reader = database.second_connection().await;
    run(&mut reader, "BEGIN; SELECT FROM jobs_20240515").await;
    let before = now.minus(DAY * 36);
    assert_eq!(store.prune(before, 9).await.expect("prune").days, 0, "it is read");
    // A second look would find that this job ended late.
    let mut other_session = database.second_connection().await;
    run(&mut other_session, "UPDATE jobs SET completed_at = completed_at + 3456000000").await;
    run(&mut reader, "COMMIT").await;
    assert_eq!(store.prune(before, 9).await.expect("prune").days, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_replica_at_a_time_looks_through_days() {
    let database = Database::migrated().await;
    let (w, store, now) = aged(&database, 40).await;
    let job = w.manual_job(w.schedule().await, minute(1)).await;
    w.run(minute(1), job, AttemptEnd::Succeeded).await;
    let mut other_replica = database.second_connection().await;
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('punctual check history', 0))";
    run(&mut other_replica, &format!("BEGIN; {lock}")).await;
    let before = now.minus(DAY * 36);
    assert_eq!(store.prune(before, 9).await.expect("prune").days, 0, "the other one looks");
    run(&mut other_replica, "COMMIT").await;
    assert_eq!(store.prune(before, 9).await.expect("prune").days, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_day_with_an_unfinished_job_or_a_reader_stays() {
    let database = Database::migrated().await;
    let (w, store, now) = aged(&database, 40).await;
    let id = w.schedule().await;
    let [done, waiting] = [w.manual_job(id, minute(1)).await, w.manual_job(id, minute(1)).await];
    w.run(minute(1), done, AttemptEnd::Succeeded).await;
    assert_eq!(store.prune(now, 9).await.expect("prune").jobs, 1);
    assert_eq!(w.listed(&every_job()).await, [waiting]);
    w.run(minute(2), waiting, AttemptEnd::Succeeded).await;
    let mut reader = database.second_connection().await;
    let mut other_session = database.second_connection().await;
    for (table, left) in [("attempts", 1), ("jobs", 0)] {
        run(&mut reader, &format!("BEGIN; SELECT FROM {table}_20240515")).await;
        // The rows are deleted anyway. The tables are dropped when no transaction reads them any
        // more.
        assert_eq!(store.prune(now, 9).await.expect("prune").jobs, left, "{table}");
        for both in ["jobs", "attempts"] {
            assert_eq!(days(&mut other_session, both).await[0], "20240515", "{table}");
        }
        until_so_many_days_are_held(&*store, now, 1).await;
        run(&mut reader, "COMMIT").await;
    }
    store.prune(now, 9).await.expect("prune");
    assert_ne!(days(&mut other_session, "jobs").await[0], "20240515");
    until_so_many_days_are_held(&*store, now, 0).await;
}

/// Prunes until the metric shows so many days that cannot be dropped. Other tests of this process
/// prune, too, so a value can be theirs.
async fn until_so_many_days_are_held(store: &dyn UpkeepStore, now: Timestamp, days: usize) {
    let line = format!("punctual_history_partitions_held {days}");
    let exporter = punctual::telemetry::metrics::install();
    until(&format!("the metric shows {days} held days"), async || {
        store.prune(now, 9).await.expect("prune");
        exporter.render().lines().any(|shown| shown == line).then_some(())
    })
    .await;
}
