//! The canary of a real process, in time-lapse.

use std::time::Duration;

use crate::harness::client::ApiClient;
use crate::harness::process::{Installation, Server};
use crate::harness::wait::within;

/// How long some ticks may take, in time-lapse and on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An installation with a canary, whose minutes are five seconds long, and which may call nothing else.
fn installation() -> Installation {
    let now = punctual::runtime::Clock::system().now().as_millis();
    let clock = format!("{now},12");
    Installation::new(&[
        ("PUNCTUAL_CANARY_ENABLED", "true"),
        ("PUNCTUAL_OUTBOUND_ALLOW", ""),
        ("PUNCTUAL_CLUSTER_SHARDS", "3"),
        ("PUNCTUAL_TEST_CLOCK", &clock),
    ])
}

async fn ticks(server: &Server, result: &str) -> u64 {
    server.counter(&format!("punctual_canary_ticks_total{{result=\"{result}\"}}")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_ticks_run_though_nothing_else_may_be_called() {
    let mut installation = installation();
    let server = installation.serve().await;
    within(PATIENCE, "the ticks of two minutes run", async || {
        let ran = ticks(&server, "on_time").await + ticks(&server, "late").await;
        (ran >= 6).then_some(())
    })
    .await;
    assert_eq!((ticks(&server, "missed").await, ticks(&server, "doubled").await), (0, 0));

    // Nothing of it is a tenant's.
    let client = installation.client(&server);
    assert_eq!(client.get("/v1/schedules").await.body["pagination"]["total"], 0);
    assert!(client.jobs("").await.is_empty());
    let job = client.run("http://0.canary.invalid/echo?canary", serde_json::json!({})).await;
    let job = client.finished(&job).await;
    assert_eq!(job["errorCode"], "DNS", "{job}");
    let keys = installation.run(&["key", "list", "--account", "punctual-canary"]);
    assert!(!keys.contains("key_"), "{keys}");

    // What nobody lets run is missed.
    installation.run(&["account", "suspend", "punctual-canary"]);
    within(PATIENCE, "its ticks are missed", async || {
        (ticks(&server, "missed").await > 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_comes_twice_is_counted() {
    let mut installation = installation();
    let server = installation.serve().await;
    let operations = ApiClient::new(server.operations_address().expect("it serves"), "");
    for (key, twice) in [("once", false), ("again", true)] {
        let client = operations.once(key);
        client.get("/echo?canary").await;
        if twice {
            client.get("/echo?canary").await;
            client.get("/echo").await;
        }
    }
    within(PATIENCE, "one is doubled", async || {
        let doubled = ticks(&server, "doubled").await;
        assert!(doubled <= 1, "{doubled}");
        (doubled == 1).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_that_is_switched_off_rests() {
    let mut installation = installation();
    let server = installation.serve().await;
    within(PATIENCE, "it is set up", async || {
        let accounts = installation.run(&["account", "list"]);
        accounts.contains("punctual-canary").then_some(())
    })
    .await;
    server.kill();
    let mut server = installation.launch(&[("PUNCTUAL_CANARY_ENABLED", "false".to_owned())]);
    server.ready().await;
    within(PATIENCE, "it rests", async || {
        let accounts = installation.run(&["account", "list"]);
        let its = accounts.lines().find(|line| line.contains("punctual-canary"));
        its.expect("it is there").contains("suspended").then_some(())
    })
    .await;
    server.kill();
    let _server = installation.serve().await;
    within(PATIENCE, "it goes on", async || {
        let accounts = installation.run(&["account", "list"]);
        let its = accounts.lines().find(|line| line.contains("punctual-canary"));
        its.expect("it is there").contains("active").then_some(())
    })
    .await;
}
