//! Ticks during an outage of the service, in the metrics.

use std::time::Duration;

use serde_json::json;

use crate::harness::process::Installation;
use crate::harness::recorder::Recorder;
use crate::harness::wait::{live_for, within};

/// A minute of the calendar, with the delay of a busy machine.
const A_MINUTE: Duration = Duration::from_secs(6);

const TIMEOUT: Duration = Duration::from_secs(30);

/// After an outage, the late starts show in the metrics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_that_is_caught_up_starts_late() {
    // A minute lasts five seconds.
    let clock = format!("{},12", punctual::runtime::Clock::system().now().as_millis());
    let mut installation = Installation::new(&[("PUNCTUAL_TEST_CLOCK", &clock)]);
    let (server, target) = (installation.serve().await, Recorder::start().await);
    let fields = json!({ "cronExpression": "* * * * *", "catchUpPolicy": "all" });
    installation.client(&server).create(&target.url("/late"), fields).await;
    server.kill();
    live_for(A_MINUTE * 2).await;
    let server = installation.serve().await;
    let bucket = |bound: &str| format!("punctual_start_lag_seconds_bucket{{le=\"{bound}\"}}");
    within(TIMEOUT, "a tick counts as started late", async || {
        let late = server.counter(&bucket("+Inf")).await - server.counter(&bucket("1")).await;
        (late > 0).then_some(())
    })
    .await;
    assert!(target.count() > 0, "it was sent");
}
