//! Jobs triggered while another transaction changes their schedule or account.

use punctual::domain::ScheduleId;
use punctual::store::{NewJob, Result, StoreErrorKind, TriggerResult};
use sqlx::Connection;
use sqlx::types::Uuid;

use super::super::world::{World, definition, minute};
use super::locks::{until_one_waits, until_so_many_wait};
use super::world;
use crate::harness::database::{Database, run};

fn trigger(w: &World, schedule: ScheduleId) -> impl Future<Output = Result<TriggerResult>> {
    let (store, write) = (w.store.clone(), w.write(minute(1)));
    let job = NewJob { id: w.job_id(minute(1)), schedule };
    w.spawn(async move { store.create_job(&write, &job, None).await })
}

/// Runs the statements in a transaction that a trigger has to wait for. Returns the result of the
/// trigger after the commit.
async fn triggered_beside(
    w: &World,
    database: &Database,
    schedule: ScheduleId,
    statements: &[String],
) -> Result<TriggerResult> {
    let (mut holder, mut other_session) =
        (database.second_connection().await, database.second_connection().await);
    let mut changed = holder.begin().await.expect("begin");
    for statement in statements {
        run(&mut changed, statement).await;
    }
    let triggered = trigger(w, schedule);
    until_one_waits(&mut other_session).await;
    changed.commit().await.expect("commit");
    triggered.await
}

async fn counted(database: &Database, table: &str) -> i64 {
    let query = format!("SELECT count(*) FROM {table}");
    let mut other_session = database.second_connection().await;
    sqlx::query_scalar(sqlx::AssertSqlSafe(query))
        .fetch_one(&mut other_session)
        .await
        .expect("counted")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_that_is_being_deleted_is_not_found() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let id = w.schedule().await;
    let entries = counted(&database, "audit_log").await;
    let delete = format!("DELETE FROM schedules WHERE id = '{}'", Uuid::from_bytes(id.to_bytes()));
    let triggered = triggered_beside(&w, &database, id, &[delete]).await.expect("an answer");
    assert_eq!(triggered, TriggerResult::NoSuchSchedule);
    assert_eq!(counted(&database, "runs").await, 0);
    assert_eq!(counted(&database, "audit_log").await, entries, "nothing was done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_that_was_waited_for_is_judged_as_it_is_then() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let id = w.schedule().await;
    let suspend = ["SELECT FROM accounts FOR UPDATE", "UPDATE accounts SET suspended_at = 1"];
    let refused = triggered_beside(&w, &database, id, &suspend.map(str::to_owned)).await;
    assert_eq!(refused.expect_err("it may not").kind(), StoreErrorKind::Suspended);
    assert_eq!(counted(&database, "runs").await, 0);
    let account = Uuid::from_bytes(w.account.to_bytes());
    let delete = format!("DELETE FROM accounts WHERE id = '{account}'");
    let refused = triggered_beside(&w, &database, id, &[delete]).await;
    assert_eq!(refused.expect_err("it is gone").kind(), StoreErrorKind::NoSuchAccount);
    assert_eq!(counted(&database, "runs").await, 0);
}

/// A change by the service does not block triggers, which use the earlier version. An operator may
/// lock the row. A trigger that waited for the lock sees the changed row, but not its new version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schedule_that_was_waited_for_runs_as_it_is_then() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let id = w.schedule().await;
    let version = w.new_version(definition()).id;
    let [schedule, new] = [id.to_bytes(), version.to_bytes()].map(Uuid::from_bytes);
    let change = [
        "SELECT FROM schedules FOR UPDATE".to_owned(),
        format!(
            "INSERT INTO schedule_versions
             SELECT (jsonb_populate_record(v, '{{\"id\": \"{new}\", \"max_retries\": 7}}')).*
             FROM schedule_versions AS v WHERE schedule_id = '{schedule}'"
        ),
        format!("UPDATE schedules SET version_id = '{new}' WHERE id = '{schedule}'"),
    ];
    let triggered = triggered_beside(&w, &database, id, &change).await.expect("an answer");
    assert!(triggered.ticket().is_some(), "a job");
    let query = "SELECT version_id, max_attempts FROM runs";
    let mut other_session = database.second_connection().await;
    let jobs: Vec<(Uuid, i16)> =
        sqlx::query_as(query).fetch_all(&mut other_session).await.expect("read");
    assert_eq!(jobs, [(new, 7)]);
}

/// After a suspension returns, no further job is created.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_suspension_waits_for_the_triggers_that_have_begun() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let id = w.schedule().await;
    // Without the partition of the day, the statement would fail.
    w.manual_job(id, minute(0)).await;
    let (mut holder, mut other_session) =
        (database.second_connection().await, database.second_connection().await);
    let mut held = holder.begin().await.expect("begin");
    run(&mut held, "SELECT FROM schedules FOR UPDATE").await;
    let triggered = trigger(&w, id);
    until_one_waits(&mut other_session).await;
    let (store, write) = (w.store.clone(), w.write(minute(1)));
    let suspended = w.spawn(async move { store.set_suspended(&write, true).await });
    until_so_many_wait(&mut other_session, 2).await;
    held.rollback().await.expect("roll back");
    assert!(triggered.await.expect("an answer").ticket().is_some(), "it came before");
    suspended.await.expect("suspended");
    let refused = trigger(&w, id).await;
    assert_eq!(refused.expect_err("it came after").kind(), StoreErrorKind::Suspended);
    assert_eq!(counted(&database, "runs").await, 2);
}
