//! A damaged row among valid rows.

use std::time::Duration;

use serde_json::json;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

use crate::harness::process::{Installation, Server};
use crate::harness::recorder::Recorder;
use crate::harness::wait::until;

/// Returns the number of log lines about the row of a job.
fn logged(server: &Server, job: &str) -> usize {
    server.log().iter().filter(|line| line["row"] == job).count()
}

#[tokio::test]
async fn a_damaged_definition_fails_its_own_jobs_and_the_log_names_them_once() {
    let target = Recorder::start().await;
    let mut installation = Installation::new(&[]);
    let mut server = installation.serve().await;
    let api = installation.client(&server);
    let fine = api.create(&target.url("/ok"), json!({})).await;
    let damaged =
        api.create(&target.url("/ok"), json!({ "maxRetries": 5, "timezone": "Asia/Tokyo" })).await;
    let options = SqliteConnectOptions::new().filename(installation.file());
    let mut other = options.connect().await.expect("opened");
    sqlx::query(
        "UPDATE schedule_versions SET timeout_seconds = 70007 WHERE timezone = 'Asia/Tokyo'",
    )
    .execute(&mut other)
    .await
    .expect("damaged");
    other.close().await.expect("closed");
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        bad.push(api.trigger(&damaged).await);
        good.push(api.trigger(&fine).await);
    }
    for job in &good {
        assert_eq!(api.finished(job).await["status"], "SUCCESS");
    }
    for job in &bad {
        let ended = api.finished(job).await;
        let end = (&ended["status"], &ended["errorCode"], &ended["attemptNumber"]);
        assert_eq!(end, (&json!("FAILED"), &json!("INTERNAL"), &json!(1)), "{ended}");
        assert!(ended["errorMessage"].as_str().is_some_and(|why| why.contains("save")), "{ended}");
        assert!(target.hits_of(job).is_empty(), "nothing was sent");
    }
    // A thread of its own writes the log, which is complete after the end.
    until("the log names all three jobs", async || {
        bad.iter().all(|job| logged(&server, job) > 0).then_some(())
    })
    .await;
    server.terminate();
    server.ended(Duration::from_secs(30)).await;
    for job in &bad {
        assert_eq!(logged(&server, job), 1);
    }
    assert!(!server.log().iter().any(|line| line.to_string().contains("70007")), "its content");
}
