//! Lookups by key, whatever the statistics say.

use punctual::store::AttemptEnd;
use sqlx::{Connection, PgConnection};

use super::super::world::{minute, soon};
use super::world;
use crate::harness::database::{Database, run};
use crate::harness::wait::until;

/// Returns how often an index was scanned since the last reset.
async fn scans(other_session: &mut PgConnection, index: &str) -> i64 {
    run(other_session, "SELECT pg_stat_clear_snapshot()").await;
    let query = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = $1";
    sqlx::query_scalar(query).bind(index).fetch_one(other_session).await.expect("an index")
}

/// Returns how many entries of runs were read since the last reset: by the index of claims, and
/// without an index.
async fn runs_read(other_session: &mut PgConnection) -> (i64, i64) {
    run(other_session, "SELECT pg_stat_clear_snapshot()").await;
    let query = "SELECT i.idx_tup_read, t.seq_tup_read
                 FROM pg_stat_user_indexes AS i JOIN pg_stat_user_tables AS t USING (relid)
                 WHERE i.indexrelname = 'runs_claimed'";
    sqlx::query_as(query).fetch_one(other_session).await.expect("an index")
}

/// An open snapshot keeps the deleted runs of finished jobs in the table and in its indexes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_claims_are_found_without_a_look_at_finished_jobs() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let [mut other_session, mut reader] =
        [database.second_connection().await, database.second_connection().await];
    let mut snapshot = reader.begin().await.expect("begin");
    run(&mut snapshot, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await;
    run(&mut snapshot, "SELECT FROM runs").await;
    let id = w.schedule().await;
    for _ in 0..100 {
        let job = w.manual_job(id, minute(1)).await;
        w.run(minute(1), job, AttemptEnd::Succeeded).await;
    }
    w.store.renew(w.executor, minute(99), minute(2)).await.expect("renew");
    let lost = w.manual_job(id, minute(1)).await;
    let other_executor = w.others_claim(5, minute(1)).await;
    w.store.claim(&other_executor, &[lost]).await.expect("claim");
    run(&mut other_session, "SELECT pg_stat_reset()").await;
    for _ in 0..5 {
        let expired = w.store.expired(minute(9), 9).await.expect("read");
        assert_eq!(expired.iter().map(|claim| claim.job).collect::<Vec<_>>(), [lost]);
    }
    let (by_claim, without_index) = until("the lookups are counted", async || {
        let read = runs_read(&mut other_session).await;
        (read != (0, 0)).then_some(read)
    })
    .await;
    assert_eq!(without_index, 0, "rows read without the index");
    assert!(by_claim <= 10, "{by_claim} entries for 5 times one claim");
    snapshot.rollback().await.expect("roll back");
}

/// Runs come and go, so an analysis often finds the table empty. The planner then takes every index
/// that has the column for equally cheap, although a scan of one without its first column reads
/// all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_found_by_its_key_although_the_table_seems_to_be_empty() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let mut other_session = database.second_connection().await;
    let id = w.schedule().await;
    let at = soon(minute(1));
    let job = w.manual_job(id, at).await;
    run(
        &mut other_session,
        "UPDATE pg_class SET reltuples = 0, relpages = 100 WHERE relname LIKE 'runs%'",
    )
    .await;
    run(&mut other_session, "SELECT pg_stat_reset()").await;
    w.run(at, job, AttemptEnd::Succeeded).await;
    until("the lookups are counted", async || {
        (scans(&mut other_session, "runs_pkey").await > 0).then_some(())
    })
    .await;
    assert_eq!(scans(&mut other_session, "runs_account").await, 0);
}
