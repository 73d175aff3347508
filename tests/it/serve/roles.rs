//! Replicas with different roles, and limits that apply across all replicas.

use std::time::{Duration, Instant};

use punctual::runtime::Clock;
use serde_json::{Value, json};

use super::world::{Replica, World};
use crate::harness::client::Reply;
use crate::harness::recorder::Recorder;
use crate::harness::wait::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_takes_the_calls_and_another_does_the_work() {
    let target = Recorder::start().await;
    let world = World::new(&[]).await;
    let key = world.key();
    let front = world.replica(&[("PUNCTUAL_ROLES", "api")]).await;
    let api = front.client(&key);
    let schedule = api.create(&target.url("/ok"), json!({})).await;
    let waiting = api.trigger(&schedule).await;
    assert_eq!(api.job(&waiting).await["status"], "PENDING");
    let _scheduler = world.replica(&[("PUNCTUAL_ROLES", "scheduler")]).await;
    let _executor = world.replica(&[("PUNCTUAL_ROLES", "executor")]).await;
    // The job rescuer finds the job from before. The executor learns of the new one at once.
    assert_eq!(api.finished(&waiting).await["status"], "SUCCESS");
    let job = api.trigger(&schedule).await;
    assert_eq!(api.finished(&job).await["status"], "SUCCESS");
    assert_eq!(target.count(), 2);
    assert!(front.shards().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_shows_and_changes_schedules_of_another() {
    let target = Recorder::start().await;
    let world = World::new(&[]).await;
    let key = world.key();
    let (first, second) = tokio::join!(world.replica(&[]), world.replica(&[]));
    let (first, second) = (first.client(&key), second.client(&key));
    let schedule = first.create(&target.url("/ok"), json!({})).await;
    let path = format!("/v1/schedules/{schedule}");
    let seen = second.get(&path).await;
    assert_eq!(seen.data(), first.get(&path).await.data());
    let job = second.trigger(&schedule).await;
    assert_eq!(first.finished(&job).await, second.job(&job).await);
    let changed = second.call("PATCH", &path, Some(&json!({ "name": "other" }))).await;
    changed.expect("an answer").data();
    assert_eq!(first.get(&path).await.data()["name"], "other");
    let gone = first.call("DELETE", &path, None).await;
    assert_eq!(gone.expect("an answer").status, 200);
    assert_eq!(second.get(&path).await.status, 404);
}

/// Returns the id of the newest key.
fn key_id(world: &World) -> String {
    let list = world.run(&["key", "list", "--account", "first"]);
    let id = list.split_whitespace().find(|word| word.starts_with("key_"));
    id.expect("an id").to_owned()
}

/// No call five seconds after the revocation is accepted, however slow the machine is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_is_refused_by_all_within_five_seconds() {
    let world = World::new(&[]).await;
    let key = world.key();
    let (first, second) = tokio::join!(world.replica(&[]), world.replica(&[]));
    let clients = [first.client(&key), second.client(&key)];
    for client in &clients {
        assert_eq!(client.get("/v1/schedules").await.status, 200);
    }
    world.run(&["key", "revoke", &key_id(&world)]);
    let revoked = Instant::now();
    let refused = clients.iter().map(async |client| {
        until("the revoked key is rejected", async || {
            let late = revoked.elapsed();
            let status = client.get("/v1/schedules").await.status;
            assert!(status == 401 || late < Duration::from_secs(5), "{status} {late:?} later");
            (status == 401).then_some(())
        })
        .await;
    });
    futures_util::future::join_all(refused).await;
}

/// S13: an old key works on all replicas until its overlap ends, and the new one works at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_key_and_the_new_one_work_everywhere_until_the_overlap_is_over() {
    let world = World::new(&[]).await;
    let old = world.key();
    let (first, second) = tokio::join!(world.replica(&[]), world.replica(&[]));
    let status =
        async |replica: &Replica, key: &str| replica.client(key).get("/v1/schedules").await.status;
    assert_eq!(status(&first, &old).await, 200);
    let new = world.run(&["key", "rotate", &key_id(&world)]);
    for replica in [&first, &second] {
        assert_eq!(status(replica, &new).await, 200, "at once");
        // The second replica has not seen the key before, so it reads the store.
        assert_eq!(status(replica, &old).await, 200, "for a day");
    }
    let newest = world.run(&["key", "rotate", &key_id(&world), "--overlap", "1s"]);
    for replica in [&first, &second] {
        assert_eq!(status(replica, &newest).await, 200, "at once");
        let expired = until("the rotated key expires", async || {
            let reply = replica.client(&new).get("/v1/schedules").await;
            (reply.status != 200).then_some(reply)
        })
        .await;
        assert_eq!(expired.status, 401, "{expired:?}");
        assert_eq!(expired.body["error"]["code"], "EXPIRED_API_KEY");
        assert_eq!(status(replica, &old).await, 200, "its overlap is another one");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_counted_over_all() {
    let world = World::new(&[("PUNCTUAL_RATE_PER_MINUTE", "20")]).await;
    let key = world.key();
    let (first, second) = tokio::join!(world.replica(&[]), world.replica(&[]));
    let clients = [first.client(&key), second.client(&key)];
    let mut allowed = 0;
    let mut refused = 0;
    for turn in 0..50 {
        match clients[turn % 2].get("/v1/schedules").await.status {
            200 => allowed += 1,
            429 => refused += 1,
            status => panic!("{status}"),
        }
    }
    // A new minute may have started during the calls.
    assert!(allowed == 20 || allowed == 40, "{allowed} allowed, {refused} refused");
}

/// TICK-4: while a replica stops, the others do its work, and the API gives the same responses on
/// each replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_stops_leaves_its_work_to_the_others() {
    let target = Recorder::start().await;
    let world = World::new(&[]).await;
    let key = world.key();
    let (first, second) = tokio::join!(world.replica(&[]), world.replica(&[]));
    let api = second.client(&key);
    let schedule = first.client(&key).create(&target.url("/slow/300"), json!({})).await;
    let mut jobs = Vec::new();
    for _ in 0..20 {
        jobs.push(first.client(&key).trigger(&schedule).await);
    }
    first.stop().await;
    for job in &jobs {
        assert_eq!(api.finished(job).await["status"], "SUCCESS");
        assert_eq!(target.hits_of(job).len(), 1);
    }
    until("the other replica leads all shards", async || {
        let shards = second.ask("/readyz").await.body["shards"].clone();
        (shards.as_array().map(Vec::len) == Some(usize::from(super::world::SHARDS))).then_some(())
    })
    .await;
    assert_eq!(second.ask("/readyz").await.body["store"], Value::from("ok"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_counted_over_all() {
    let world = World::new(&[("PUNCTUAL_RATE_PER_MINUTE", "0"), ("PUNCTUAL_RATE_PER_HOUR", "100")]);
    let world = world.await;
    world.key();
    let replicas = tokio::join!(world.replica(&[]), world.replica(&[]), world.replica(&[]));
    let hour = || Clock::system().now().as_millis() / 3_600_000;
    let refused = async || {
        let key = world.run(&["key", "create", "--account", "first"]);
        let clients = [&replicas.0, &replicas.1, &replicas.2].map(|replica| replica.client(&key));
        let odd = ["/v1/account", "/v1//account", "/V1/ACCOUNT", "/v1/account/", "/v1/jobs?x"];
        let calls = (0..101).map(|number| {
            let method = if number % 7 == 0 { "OPTIONS" } else { "GET" };
            clients[number % 3].call(method, odd[number % 5], None)
        });
        let replies = futures_util::future::join_all(calls).await;
        let status = |reply: std::io::Result<Reply>| reply.expect("an answer").status;
        replies.into_iter().map(status).filter(|status| *status == 429).count()
    };
    let before = hour();
    let mut count = refused().await;
    if hour() != before {
        count = refused().await;
    }
    assert_eq!(count, 1);
}
