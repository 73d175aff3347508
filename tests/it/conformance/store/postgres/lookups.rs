//! Lookups by key, whatever the statistics say.

use punctual::store::AttemptEnd;
use sqlx::PgConnection;

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
