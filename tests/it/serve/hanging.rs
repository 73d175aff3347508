//! A backlog of hundreds of thousands of jobs against a host that hangs does not delay other
//! accounts, with PostgreSQL and Redis.

use std::time::Duration;

use serde_json::json;
use sqlx::PgConnection;

use super::world::World;
use crate::harness::lags::{PER_HOST, Quiet, WAITING};
use crate::harness::recorder::Recorder;
use crate::harness::wait::within;

/// The time that a start may take in addition to twice its idle time. Meanwhile the job rescuer
/// pushes four pages of 1,000 late jobs per second to Redis, in a debug build, and PostgreSQL,
/// Redis and the replica share two cores with other tests. A start that waited behind the backlog
/// would take minutes.
const MACHINE: Duration = Duration::from_secs(5);
/// The time from the preparation of the store to the first tick. By then the replica runs again.
const TICKS_AFTER_SECONDS: i64 = 30;

async fn execute(store: &mut PgConnection, sql: &'static str, value: i64) {
    sqlx::query(sql).bind(value).execute(store).await.expect("executed");
}

/// Makes the ticking schedules due soon, one after the other within five seconds.
async fn tick_soon(store: &mut PgConnection) {
    let soon = "UPDATE schedule_state AS st
         SET next_tick = (extract(epoch FROM clock_timestamp())::bigint + $1) * 1000 + s.position * 250
         FROM (SELECT id, row_number() OVER (ORDER BY id) AS position
               FROM schedules WHERE name LIKE 'tick %') AS s
         WHERE s.id = st.schedule_id";
    execute(store, soon, TICKS_AFTER_SECONDS).await;
}

/// Inserts jobs of the hanging schedule that could have started minutes ago.
async fn make_jobs_wait(store: &mut PgConnection) {
    let jobs = "WITH now AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms)
        INSERT INTO runs (id, account_id, schedule_id, version_id, shard, status, trigger,
                          max_attempts, wake_at, created_at, updated_at)
        SELECT (lpad(to_hex(now.ms - 600000 + n), 12, '0')
                || substr(replace(gen_random_uuid()::text, '-', ''), 1, 20))::uuid,
               account_id, id, version_id, shard, 0, 1, 1, now.ms - 600000 + n, now.ms, now.ms
        FROM now, generate_series(0, $1 - 1) AS n, schedules WHERE name = 'hangs'";
    execute(store, jobs, WAITING).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_wait_for_a_hanging_host_delay_no_other_account_in_a_cluster() {
    let world = World::new(&[]).await;
    let (key, target) = (world.key(), Recorder::start().await);
    world.run(&["account", "create", "quiet"]);
    let quiet = world.run(&["key", "create", "--account", "quiet"]);
    let replica = world.replica(&[]).await;
    // The requests hang for longer than the test takes.
    let hangs = json!({ "name": "hangs", "timeoutSeconds": 300 });
    replica.client(&key).create(&target.url("/hang"), hangs).await;
    let mut quiet = Quiet::new(replica.client(&quiet)).await;
    let mut store = world.second_connection().await;

    replica.stop().await;
    tick_soon(&mut store).await;
    let replica = world.replica(&[]).await;
    let idle = quiet.lags(&replica.client(&key)).await;

    replica.stop().await;
    make_jobs_wait(&mut store).await;
    tick_soon(&mut store).await;
    let replica = world.replica(&[]).await;
    within(Duration::from_secs(30), "the host is full", async || {
        (target.count() == PER_HOST).then_some(())
    })
    .await;
    let busy = quiet.lags(&replica.client(&key)).await;
    assert_eq!(target.count(), PER_HOST, "the backlog is still there");
    busy.assert_beside(&idle, MACHINE);
}
