//! Clean stops.

use std::time::{Duration, Instant};

use serde_json::json;

use super::history::{History, is_final};
use crate::harness::process::Installation;
use crate::harness::recorder::Recorder;
use crate::harness::wait::{until, within};

/// The delay that a busy machine may add to a stop. With the grace period of 4 s, it is less than
/// the default grace period of 30 s.
const SLACK: Duration = Duration::from_secs(20);

/// STOP-1: a stop lets running attempts finish and starts no new ones.
#[tokio::test]
async fn a_stop_lets_attempts_finish_and_takes_no_new_ones() {
    let target = Recorder::start().await;
    let mut installation = Installation::new(&[]);
    let mut server = installation.serve().await;
    let api = installation.client(&server);
    let schedule = api.create(&target.url("/slow/1000"), json!({ "maxRetries": 3 })).await;
    let mut history = History::default();
    for _ in 0..5 {
        history.jobs.insert(api.trigger(&schedule).await);
    }
    until("all five attempts are sent", async || (target.count() == 5).then_some(())).await;
    server.terminate();
    let status = server.ended(Duration::from_secs(10)).await;
    assert_eq!(status.code(), Some(0), "{:?}", server.log());
    assert!(target.hits().iter().all(|hit| hit.answered == Some(200)), "{:?}", target.hits());

    let server = installation.serve().await;
    let api = installation.client(&server);
    for id in &history.jobs {
        let job = api.job(id).await;
        assert_eq!((&job["status"], &job["attemptNumber"]), (&json!("SUCCESS"), &json!(1)));
    }
    history.judge(&api, &target).await;
    assert_eq!(target.count(), 5);
}

/// F78: a stop ends with the grace period, even if the target hangs.
#[tokio::test]
async fn a_stop_ends_with_the_grace_period_whatever_the_target_does() {
    let target = Recorder::start().await;
    let mut installation = Installation::new(&[("PUNCTUAL_SHUTDOWN_GRACE_SECONDS", "4")]);
    let mut server = installation.serve().await;
    let api = installation.client(&server);
    let fields = json!({ "maxRetries": 2, "timeoutSeconds": 300 });
    let id = api.run(&target.url("/hang"), fields).await;
    until("the first attempt is sent", async || (target.count() == 1).then_some(())).await;
    let asked = Instant::now();
    server.terminate();
    let status = server.ended(Duration::from_secs(4) + SLACK).await;
    assert_eq!(
        status.code(),
        Some(1),
        "exit status 1, because an attempt was cut off: {:?}",
        server.log()
    );
    assert!(target.hits()[0].answered.is_none());
    println!("ended {:?} after the signal", asked.elapsed());

    target.release();
    let server = installation.serve().await;
    let api = installation.client(&server);
    let job = api.finished(&id).await;
    assert_eq!((&job["status"], &job["attemptNumber"]), (&json!("SUCCESS"), &json!(2)));
    assert_eq!(job["attempts"][0]["errorCode"], "WORKER_LOST");
    let mut history = History::default();
    history.jobs.insert(id);
    history.judge(&api, &target).await;
}

/// F77: clean stops under load lose and repeat no attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clean_restarts_repeat_nothing() {
    let target = Recorder::start().await;
    let mut installation = Installation::new(&[]);
    let mut history = History::default();
    let mut schedules = Vec::new();
    for life in 0..3 {
        let mut server = installation.serve().await;
        let api = installation.client(&server);
        if life == 0 {
            for path in ["/slow/100", "/seq/500,200", "/ok"] {
                schedules.push(api.create(&target.url(path), json!({ "maxRetries": 3 })).await);
            }
        }
        for schedule in schedules.iter().cycle().take(45) {
            history.jobs.insert(api.trigger(schedule).await);
        }
        server.terminate();
        let status = server.ended(Duration::from_secs(10)).await;
        assert_eq!(status.code(), Some(0), "{:?}", server.log());
    }
    let server = installation.serve().await;
    let api = installation.client(&server);
    within(Duration::from_secs(20), "all jobs finish", async || {
        api.jobs("").await.iter().all(is_final).then_some(())
    })
    .await;
    let jobs = history.judge(&api, &target).await;
    assert_eq!(jobs.len(), 3 * 45);
    for job in &jobs {
        let needed =
            if job["endpoint"].as_str().is_some_and(|url| url.contains("/seq/")) { 2 } else { 1 };
        assert_eq!((&job["status"], &job["attemptNumber"]), (&json!("SUCCESS"), &json!(needed)));
    }
    assert_eq!(target.count(), 3 * (15 + 30 + 15), "each attempt was sent once");
}
