//! Ticks that wait for a job of their own schedule or are skipped because of it, in the metrics.

use std::time::Duration;

use serde_json::json;

use crate::harness::process::Installation;
use crate::harness::recorder::Recorder;
use crate::harness::wait::within;

/// The timeout for some ticks, in a time lapse and on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_held_as_its_schedule_wants_does_not_start_late() {
    // A minute lasts five seconds.
    let clock = format!("{},12", punctual::runtime::Clock::system().now().as_millis());
    let mut installation = Installation::new(&[("PUNCTUAL_TEST_CLOCK", &clock)]);
    let (server, target) = (installation.serve().await, Recorder::start().await);
    let fields = json!({
        "cronExpression": "* * * * *", "overlapPolicy": "queue_one", "timeoutSeconds": 300
    });
    installation.client(&server).create(&target.url("/hang"), fields).await;
    let overlapped = "punctual_skips_total{reason=\"overlap\"}";
    within(TIMEOUT, "a tick is skipped because of overlap", async || {
        (server.counter(overlapped).await > 0).then_some(())
    })
    .await;
    assert_eq!(target.count(), 1, "the first one hangs");
    assert!(server.counter("punctual_ticks_fired_total").await >= 2, "the held tick was fired");
    assert!(server.counter("punctual_firing_lag_seconds_count").await >= 2);
    target.release();
    within(TIMEOUT, "the held job is sent", async || (target.count() >= 2).then_some(())).await;
    // The job has waited for more than a minute.
    let bucket = |bound: &str| format!("punctual_start_lag_seconds_bucket{{le=\"{bound}\"}}");
    let all = server.counter(&bucket("+Inf")).await;
    assert_eq!(server.counter(&bucket("30")).await, all);
    assert!(all > 0, "the first one was prompt");
}
