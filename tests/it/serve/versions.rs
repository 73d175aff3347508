//! Two versions at the same time (F39): a newer release migrates the store while an older one runs,
//! or waits until the older one has stopped.

use std::time::Duration;

use serde_json::json;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection};

use super::world::{SHARDS, World};
use crate::cluster::lapse::Lapse;
use crate::harness::database::run;
use crate::harness::process::run_to_end;
use crate::harness::recorder::Recorder;
use crate::harness::states::{of_a_tick, succeeded};
use crate::harness::wait::{until, within};

/// A migration of a future release. It only adds columns, so `min_compatible` stays.
const EXPANDING: &str = "
    ALTER TABLE schedules ADD COLUMN note text;
    ALTER TABLE schedule_versions ADD COLUMN color text NOT NULL DEFAULT 'none';
    ALTER TABLE schedule_state ADD COLUMN weight integer NOT NULL DEFAULT 1;
    ALTER TABLE runs ADD COLUMN region text;
    ALTER TABLE jobs ADD COLUMN region text;
    ALTER TABLE attempts ADD COLUMN region text;
    ALTER TABLE accounts ADD COLUMN color text NOT NULL DEFAULT 'none';
    ALTER TABLE api_keys ADD COLUMN used_at bigint;
    ALTER TABLE skips ADD COLUMN note text;
    CREATE TABLE channels (id uuid PRIMARY KEY);";

/// Writes that the newer release may make after the migration.
const WRITES: &str = "
    INSERT INTO audit_log (id, account_id, actor, action, object, origin)
    SELECT gen_random_uuid(), id, 'service', 'thing.done', 'thing_1', 'service' FROM accounts;
    INSERT INTO skips (account_id, schedule_id, first_tick, last_tick, count, reason)
    SELECT account_id, id, now.ms, now.ms, 1, 'weather' FROM schedules,
        (SELECT (extract(epoch FROM now()) * 1000)::bigint AS ms) AS now;";

/// Waits until each of the three schedules has run a tick that is not due yet.
async fn all_tick(world: &World) {
    let mut other_session = world.second_connection().await;
    let last = concat!("SELECT coalesce(max(id::text), '') FROM jobs WHERE ", of_a_tick!());
    let last: String = sqlx::query_scalar(last).fetch_one(&mut other_session).await.expect("read");
    within(Duration::from_secs(30), "all three schedules tick", async || {
        let ticked: i64 = sqlx::query_scalar(concat!(
            "SELECT count(DISTINCT schedule_id) FROM jobs WHERE id::text > $1 AND ",
            of_a_tick!(),
            " AND ",
            succeeded!()
        ))
        .bind(&last)
        .fetch_one(&mut other_session)
        .await
        .expect("counted");
        (ticked == 3).then_some(())
    })
    .await;
}

/// Returns the newest migration of the store.
async fn newest(world: &World) -> i64 {
    let version = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations");
    version.fetch_one(&mut world.second_connection().await).await.expect("a version")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_versions_work_beside_each_other_with_a_migration_between_them() {
    let target = Recorder::start().await;
    let clock = Lapse::begin(12).variable(None);
    let mut world = World::new(&[]).await;
    let key = world.key();
    world.set("PUNCTUAL_TEST_CLOCK", clock);
    let old = world.replica(&[]).await;
    let api = old.client(&key);
    for policy in ["allow", "skip", "queue_one"] {
        let fields = json!({ "cronExpression": "* * * * *", "overlapPolicy": policy });
        api.create(&target.url("/ok"), fields).await;
    }
    all_tick(&world).await;
    let schedule = api.create(&target.url("/seq/500,200"), json!({ "maxRetries": 2 })).await;
    // This prepares all statements.
    let warm = api.trigger(&schedule).await;
    api.finished(&warm).await;
    api.get("/v1/schedules").await.data();
    // The newer replica is the same binary with one more migration, which it applies itself.
    let newer = world.folder.path().join("newer");
    std::fs::create_dir(&newer).expect("a folder");
    std::fs::write(newer.join("later.sql"), EXPANDING).expect("written");
    let newer = newer.display().to_string();
    let new = world.replica(&[("PUNCTUAL_TEST_FAULTS", &newer)]).await;
    assert_eq!(newest(&world).await, 9_999);
    run(&mut world.second_connection().await, WRITES).await;
    until("both replicas lead shards", async || {
        let (old, new) = (old.shards().await.len(), new.shards().await.len());
        (old > 0 && new > 0 && old + new == usize::from(SHARDS)).then_some(())
    })
    .await;
    all_tick(&world).await;

    let path = format!("/v1/schedules/{schedule}");
    assert_eq!(api.get(&path).await.status, 200);
    assert_eq!(api.get("/v1/schedules").await.status, 200);
    assert_eq!(api.get(&format!("{path}/skips")).await.data()["skips"][0]["reason"], "weather");
    assert_eq!(api.get("/v1/audit-log").await.status, 200);
    assert_eq!(api.job(&warm).await["status"], "SUCCESS");
    let changed = api.call("PATCH", &path, Some(&json!({ "isEnabled": false }))).await;
    changed.expect("an answer").data();
    let job = api.trigger(&schedule).await;
    let ended = api.finished(&job).await;
    assert_eq!((&ended["status"], &ended["attemptNumber"]), (&json!("SUCCESS"), &json!(2)));
    api.create(&target.url("/ok"), json!({})).await;
    world.run(&["key", "create", "--account", "first"]);
    let new_client = new.client(&key);
    let job = new_client.trigger(&schedule).await;
    assert_eq!(new_client.finished(&job).await["status"], "SUCCESS");
    // Another replica of the older release joins, and the first one stops.
    let another = world.replica(&[]).await;
    old.stop_without_errors().await;
    all_tick(&world).await;
    another.stop().await;
    all_tick(&world).await;
    let old = world.replica(&[]).await;
    let api = old.client(&key);
    new.stop_without_errors().await;

    // After an incompatible migration, replicas of the older release do not start. Running ones
    // continue.
    run(
        &mut world.second_connection().await,
        "UPDATE meta SET value = 9999 WHERE name = 'min_compatible'",
    )
    .await;
    let mut late = world.start(&[]).await;
    late.wait_for_log("use a newer punctual").await;
    late.waits_for(&json!(["store"])).await;
    assert_eq!(api.get("/v1/schedules").await.status, 200);
}

/// From version 3 on, secrets are encrypted. A replica of version 2 would send them encrypted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_replicas_are_stopped_before_an_incompatible_migration() {
    let world = World::new(&[]).await;
    let mut other_session = world.second_connection().await;
    let mut known = punctual::store::migrations::postgres();
    known.set_locking(false);
    known.run_to(2, &mut other_session).await.expect("version 2");
    let options: PgConnectOptions = world.database.url().parse().expect("a URL");
    let old = options.application_name("punctual scheduler").connect().await.expect("connected");

    let (status, said) = run_to_end(world.command(&["migrate"])).await;
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("stop all of them first; they are connected from"), "{said}");
    let mut new = world.start(&[]).await;
    new.wait_for_log("stop all of them first").await;
    assert_ne!(new.ask("/readyz").await.status, 200);
    assert_eq!(newest(&world).await, 2);
    old.close().await.expect("closed");
    new.ready().await;
}
