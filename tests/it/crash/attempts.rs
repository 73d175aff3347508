//! Attempts whose process dies, or whose outcome cannot be stored.

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use super::history::History;
use crate::harness::process::Installation;
use crate::harness::recorder::Recorder;
use crate::harness::wait::until;

/// Starts a job, kills the server while the job runs, and starts the server again. Returns the
/// final job, the target, and the second server's counts of jobs that failed and of attempts that
/// were repeated because of the crash.
async fn killed_in_the_middle(max_retries: u8) -> (Value, Recorder, [u64; 2]) {
    let target = Recorder::start().await;
    let mut installation = Installation::new(&[]);
    let server = installation.serve().await;
    let api = installation.client(&server);
    let fields = json!({ "maxRetries": max_retries });
    let id = api.run(&target.url("/hang"), fields).await;
    until("the first attempt is sent", async || (target.count() == 1).then_some(())).await;
    server.kill();
    target.release();
    let server = installation.serve().await;
    let api = installation.client(&server);
    let job = api.finished(&id).await;
    let mut history = History::default();
    history.jobs.insert(id);
    history.judge(&api, &target).await;
    let failed = server.counter("punctual_jobs_failed_total{code=\"WORKER_LOST\"}").await;
    let retries = server.counter("punctual_retries_total").await;
    (job, target, [failed, retries])
}

/// F40: a job of a killed process continues with its next attempt.
#[tokio::test]
async fn a_job_of_a_killed_process_continues_with_its_next_attempt() {
    let (job, target, counted) = killed_in_the_middle(3).await;
    assert_eq!((&job["status"], &job["attemptNumber"]), (&json!("SUCCESS"), &json!(2)));
    assert_eq!(job["attempts"][0]["errorCode"], "WORKER_LOST");
    let attempts: Vec<_> = target.hits().iter().map(|hit| hit.attempt).collect();
    assert_eq!((attempts, counted), (vec![1, 2], [0, 1]));
}

/// F41: a job of a killed process without a further attempt fails.
#[tokio::test]
async fn a_job_whose_only_attempt_is_killed_fails() {
    let (job, target, counted) = killed_in_the_middle(1).await;
    assert_eq!((&job["status"], &job["errorCode"]), (&json!("FAILED"), &json!("WORKER_LOST")));
    assert!(job["errorMessage"].as_str().is_some_and(|why| why.contains("lost")), "{job}");
    assert_eq!((target.count(), counted), (1, [1, 0]));
}

/// F45: an outcome is committed after a lock on the store ends. Writes of the API get 503
/// meanwhile.
#[tokio::test]
async fn an_outcome_outlives_a_locked_store() {
    let target = Recorder::start().await;
    let mut installation = Installation::new(&[("PUNCTUAL_EXECUTOR_CLAIM_SECONDS", "60")]);
    let server = installation.serve().await;
    let api = installation.client(&server);
    let schedule = api.create(&target.url("/hang"), json!({ "maxRetries": 3 })).await;
    let id = api.trigger(&schedule).await;
    until("the first attempt is sent", async || (target.count() == 1).then_some(())).await;

    let options = SqliteConnectOptions::new().filename(installation.file());
    let mut other = options.connect().await.expect("opened");
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.expect("locked");
    target.release();
    let path = format!("/v1/schedules/{schedule}/trigger");
    let (refused, read) = tokio::join!(
        api.post(&path, &Value::Null),
        // A writer does not block readers.
        api.job(&id),
    );
    assert_eq!(read["status"], "RUNNING");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.body["error"]["code"], "SERVICE_UNAVAILABLE");
    sqlx::query("ROLLBACK").execute(&mut other).await.expect("released");
    other.close().await.expect("closed");

    let job = api.finished(&id).await;
    assert_eq!((&job["status"], &job["attemptNumber"]), (&json!("SUCCESS"), &json!(1)));
    assert_eq!(job["response"], "released");
    let second = api.trigger(&schedule).await;
    assert_eq!(api.finished_within(Duration::from_secs(10), &second).await["status"], "SUCCESS");
}
