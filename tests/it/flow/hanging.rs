//! A backlog of hundreds of thousands of jobs against a host that hangs does not delay other
//! accounts.

use std::time::Duration;

use serde_json::json;
use sqlx::SqliteConnection;

use crate::harness::app::Service;
use crate::harness::lags::{PER_HOST, Quiet, WAITING};
use crate::harness::wait::within;

/// The time that a start may take in addition to twice its idle time. Meanwhile the job rescuer
/// pushes four pages of 1,000 late jobs per second. Each page keeps a debug build busy for some 50
/// ms, and ten times as long on a slow machine. A start that waited behind the backlog would take
/// minutes.
const MACHINE: Duration = Duration::from_secs(3);
/// The time from the preparation of the store to the first tick. By then the service runs again.
const TICKS_AFTER_SECONDS: i64 = 30;

async fn execute(store: &mut SqliteConnection, sql: &'static str, value: i64) {
    sqlx::query(sql).bind(value).execute(store).await.expect("executed");
}

/// Makes the ticking schedules due soon, one after the other within ten seconds.
async fn tick_soon(store: &mut SqliteConnection) {
    let soon = "UPDATE schedule_state AS st
         SET next_tick = (unixepoch() + ?1) * 1000 + (s.rowid % 20) * 500
         FROM schedules AS s WHERE s.id = st.schedule_id AND s.name LIKE 'tick %'";
    execute(store, soon, TICKS_AFTER_SECONDS).await;
}

/// Inserts jobs of the hanging schedules that could have started minutes ago.
async fn make_jobs_wait(store: &mut SqliteConnection) {
    let jobs = "WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n + 1 < ?1)
        INSERT INTO runs (id, account_id, schedule_id, version_id, shard, status, trigger,
                          max_attempts, wake_at, created_at, updated_at)
        SELECT unhex(printf('%012x', unixepoch() * 1000 - 600000 + n) || hex(randomblob(10))),
               account_id, id, version_id, shard, 0, 1, 1,
               unixepoch() * 1000 - 600000 + n, unixepoch() * 1000, unixepoch() * 1000
        FROM n CROSS JOIN (SELECT * FROM schedules WHERE name = 'hangs')";
    execute(store, jobs, WAITING).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_wait_for_a_hanging_host_delay_no_other_account() {
    let mut service = Service::start().await;
    // The requests hang for longer than the test takes.
    let hangs = json!({ "name": "hangs", "timeoutSeconds": 300 });
    service.api.create(&service.target.url("/hang"), hangs).await;
    let mut quiet = Quiet::new(service.other_account_client("quiet").await).await;
    service.restart(tick_soon).await;
    let idle = quiet.lags(&service.api).await;

    service
        .restart(async |store| {
            make_jobs_wait(store).await;
            tick_soon(store).await;
        })
        .await;
    within(Duration::from_secs(30), "the host is full", async || {
        (service.target.count() == PER_HOST).then_some(())
    })
    .await;
    let busy = quiet.lags(&service.api).await;
    assert_eq!(service.target.count(), PER_HOST, "the backlog is still there");
    busy.assert_beside(&idle, MACHINE);
}
