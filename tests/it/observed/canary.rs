//! The canary of a real process, in a time lapse.

use std::sync::Arc;
use std::time::Duration;

use punctual::domain::AuditId;
use punctual::domain::audit::Author;
use punctual::domain::plan::UNLIMITED;
use punctual::operations::canary::{CanarySuspender, account};
use punctual::runtime::{Clock, Random, Worker};
use punctual::store::sqlite::{SqliteSettings, SqliteStore};
use punctual::store::{SharedStore, WriteContext};
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use crate::harness::client::ApiClient;
use crate::harness::keys::cipher;
use crate::harness::process::{Installation, Server};
use crate::harness::wait::{live_for, within};

/// The timeout for some ticks, in a time lapse and on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns an installation with a canary, whose minutes last five seconds. It may call no other
/// local target.
fn installation() -> Installation {
    let now = Clock::system().now().as_millis();
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
    within(TIMEOUT, "the ticks of two minutes run", async || {
        let ran = ticks(&server, "on_time").await + ticks(&server, "late").await;
        (ran >= 6).then_some(())
    })
    .await;
    assert_eq!((ticks(&server, "missed").await, ticks(&server, "doubled").await), (0, 0));

    // No account sees anything of the canary.
    let client = installation.client(&server);
    assert_eq!(client.get("/v1/schedules").await.body["pagination"]["total"], 0);
    assert!(client.jobs("").await.is_empty());
    let job = client.run("http://0.canary.invalid/echo?canary", serde_json::json!({})).await;
    let job = client.finished(&job).await;
    assert_eq!(job["errorCode"], "DNS", "{job}");
    let keys = installation.run(&["key", "list", "--account", "punctual-canary"]);
    assert!(!keys.contains("key_"), "{keys}");

    // Ticks that are not allowed to run are missed.
    installation.run(&["account", "suspend", "punctual-canary"]);
    within(TIMEOUT, "the ticks of the suspended canary are missed", async || {
        (ticks(&server, "missed").await > 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_duplicate_request_is_counted() {
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
    within(TIMEOUT, "one tick is counted as doubled", async || {
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
    within(TIMEOUT, "the account of the canary is created", async || {
        let accounts = installation.run(&["account", "list"]);
        accounts.contains("punctual-canary").then_some(())
    })
    .await;
    server.kill();
    let mut server = installation.launch(&[("PUNCTUAL_CANARY_ENABLED", "false".to_owned())]);
    server.ready().await;
    within(TIMEOUT, "the account of the canary is suspended", async || {
        let accounts = installation.run(&["account", "list"]);
        let its = accounts.lines().find(|line| line.contains("punctual-canary"));
        its.expect("it is there").contains("suspended").then_some(())
    })
    .await;
    server.kill();
    let _server = installation.serve().await;
    within(TIMEOUT, "the canary continues", async || {
        let accounts = installation.run(&["account", "list"]);
        let its = accounts.lines().find(|line| line.contains("punctual-canary"));
        its.expect("it is there").contains("active").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_that_were_not_judged_in_time_are_judged_later() {
    let mut installation = installation();
    let server = installation.serve().await;
    within(TIMEOUT, "the canary has judged three ticks", async || {
        (ticks(&server, "on_time").await + ticks(&server, "late").await >= 3).then_some(())
    })
    .await;
    // Five minutes of its clock: four ticks of three schedules are too late to run when it resumes.
    server.signal("-STOP");
    live_for(Duration::from_secs(25)).await;
    server.signal("-CONT");
    within(TIMEOUT, "nine ticks are counted as missed", async || {
        (ticks(&server, "missed").await >= 9).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_cannot_rest_yet_rests_later_and_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&SqliteSettings::new(&path), &cipher()).await.expect("open");
    store.migrate().await.expect("migrate");
    let store: SharedStore = Arc::new(store);
    let (now, random) = (Clock::system().now(), Random::system());
    let write = || {
        let entry = AuditId::new(now, random.bits());
        WriteContext { account: account(), now, author: Author::SERVICE, entry, idempotency: None }
    };
    assert!(store.create_account(&write(), "punctual-canary", UNLIMITED).await.expect("created"));
    let is_suspended = async || {
        let found = store.account(account()).await.expect("read").expect("there");
        found.suspended_at.is_some()
    };

    let options = SqliteConnectOptions::new().filename(&path);
    let mut other = options.connect().await.expect("opened");
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.expect("locked");
    let mut suspender = CanarySuspender::new(store.clone(), random.clone());
    suspender.run_once(now).await.expect_err("the store is locked");
    sqlx::query("ROLLBACK").execute(&mut other).await.expect("released");
    assert!(!is_suspended().await);
    suspender.run_once(now).await.expect("it can be written");
    assert!(is_suspended().await);
    // An operator who resumes the account after that wants it to run.
    assert!(store.set_suspended(&write(), false).await.expect("resumed"));
    suspender.run_once(now).await.expect("there is nothing to do");
    assert!(!is_suspended().await);
}
