//! The stop of a replica: it reports not ready, hands over its shards, finishes attempts within the
//! grace period, and leaves the other attempts to other replicas (STOP-1).

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::PgConnection;

use super::world::{SHARDS, World};
use crate::harness::database::run;
use crate::harness::recorder::Recorder;
use crate::harness::wait::{until, within};

/// The maximum time without a leader for the shards of a stopping replica. The lease of a dead one
/// lasts 30 s here.
const HANDED_OVER: Duration = Duration::from_secs(15);
/// The maximum time until a stopping replica reports not ready. It ends after 16 s here.
const NOT_READY: Duration = Duration::from_secs(15);

/// Returns the count that a query selects.
async fn count(connection: &mut PgConnection, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(connection).await.expect("a count")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_is_reported_hands_shards_over_and_lets_attempts_end() {
    let target = Recorder::start().await;
    let settings =
        [("PUNCTUAL_CLUSTER_LEASE_SECONDS", "30"), ("PUNCTUAL_SHUTDOWN_GRACE_SECONDS", "16")];
    let world = World::new(&settings).await;
    let key = world.key();
    let old = world.replica(&[]).await;
    until("the old replica leads all shards", async || {
        (old.shards().await.len() == usize::from(SHARDS)).then_some(())
    })
    .await;
    let api = old.client(&key);
    let slow = api.run(&target.url("/hang"), json!({ "timeoutSeconds": 120 })).await;
    let endless = api
        .run(&target.url("/slow/60000"), json!({ "maxRetries": 2, "timeoutSeconds": 120 }))
        .await;
    until("both attempts are sent", async || {
        let is_sent = |job| !target.hits_of(job).is_empty();
        (is_sent(&slow) && is_sent(&endless)).then_some(())
    })
    .await;
    let new = world.replica(&[]).await;

    let signalled = Instant::now();
    old.tell_to_stop();
    within(NOT_READY, "the old replica is not ready", async || {
        (old.ask("/readyz").await.status == 503).then_some(())
    })
    .await;
    assert_eq!(old.ask("/healthz").await.status, 200, "it is alive");
    within(HANDED_OVER, "the new replica leads all shards", async || {
        (new.shards().await.len() == usize::from(SHARDS)).then_some(())
    })
    .await;
    println!("handed over {:?} after the signal", signalled.elapsed());
    // Both attempts are still running.
    let api = new.client(&key);
    assert_eq!(api.job(&slow).await["status"], "RUNNING");
    assert_eq!(api.job(&endless).await["status"], "RUNNING");
    target.release();
    let ended = api.finished(&slow).await;
    assert_eq!((&ended["status"], &ended["attemptNumber"]), (&json!("SUCCESS"), &json!(1)));
    // One attempt was aborted.
    old.ends(1).await;
    assert!(signalled.elapsed() < Duration::from_secs(30), "{:?}", signalled.elapsed());
    // The other replica soon retries the aborted attempt.
    within(Duration::from_secs(40), "the aborted attempt is retried", async || {
        target.hits_of(&endless).iter().any(|hit| hit.attempt == 2).then_some(())
    })
    .await;
    let attempts = &api.job(&endless).await["attempts"];
    assert_eq!(attempts[0]["errorCode"], Value::from("WORKER_LOST"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_on_its_way_does_not_bring_its_lease_back() {
    let world = World::new(&[]).await;
    let replica = world.replica(&[]).await;
    let mut holder = world.second_connection().await;
    // Each renewal waits here until `holder` lets it go on. An end of the lease does not wait.
    run(
        &mut holder,
        "SELECT pg_advisory_lock(1);
         CREATE FUNCTION wait_for_holder() RETURNS trigger LANGUAGE plpgsql AS
         'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END';
         CREATE TRIGGER wait_for_holder BEFORE INSERT ON replicas
         FOR EACH ROW EXECUTE FUNCTION wait_for_holder()",
    )
    .await;
    let mut other_session = world.second_connection().await;
    until("a renewal waits", async || {
        let waiting =
            "SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database
             WHERE l.locktype = 'advisory' AND NOT l.granted AND d.datname = current_database()
               AND (l.classid, l.objid) = (0, 1)";
        (count(&mut other_session, waiting).await > 0).then_some(())
    })
    .await;
    replica.tell_to_stop();
    until("no shard is held", async || {
        let inspection: Value =
            serde_json::from_str(&world.run(&["cluster", "--json"])).expect("JSON");
        let mut shards = inspection["shards"].as_array()?.iter();
        shards.all(|shard| shard["held"] == false).then_some(())
    })
    .await;
    run(&mut holder, "SELECT pg_advisory_unlock(1)").await;
    replica.ends(0).await;
    assert_eq!(count(&mut other_session, "SELECT count(*) FROM replicas").await, 0);
}
