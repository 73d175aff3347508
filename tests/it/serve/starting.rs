//! Servers that are down or misconfigured when a replica starts (F83). The replica waits, alive and
//! not ready, logs the setting to check, and becomes ready by itself.

use serde_json::json;
use sqlx::Connection;

use super::relay::Relay;
use super::world::World;
use crate::harness::database::run;
use crate::harness::servers::{PASSWORD, RedisServer, shared};
use crate::harness::wait::until;

/// Returns the host and port of a URL with one host, and a function that returns the URL with
/// another port.
fn parts(url: &str) -> (String, impl Fn(u16) -> String + use<>) {
    let (before, rest) = url.rsplit_once("127.0.0.1:").expect("loopback");
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (port, after) = rest.split_at(digits);
    let (before, after) = (before.to_owned(), after.to_owned());
    (format!("127.0.0.1:{port}"), move |port| format!("{before}127.0.0.1:{port}{after}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_may_start_later_in_any_order() {
    let mut world = World::new(&[]).await;
    let database = parts(&world.database.url());
    let redis = parts(&shared("PUNCTUAL_TEST_REDIS"));
    let (mut postgres, mut queue) = (Relay::to(&database.0), Relay::to(&redis.0));
    let members = shared("PUNCTUAL_TEST_ETCD");
    let member = members.trim_start_matches("etcd://").split(',').next().expect("a member");
    let mut cluster = Relay::to(member);
    world.set("PUNCTUAL_STORE_URL", database.1(postgres.port));
    world.set("PUNCTUAL_QUEUE_URL", redis.1(queue.port));
    let url = format!("etcd://127.0.0.1:{}/{}", cluster.port, world.prefix);
    world.set("PUNCTUAL_CLUSTER_URL", url);

    let mut replica = world.start(&[]).await;
    replica.wait_for_log("waiting for the store (store.url)").await;
    let said = json!({ "status": "starting", "waitingFor": ["store"], "store": "unavailable" });
    until("the replica reports that it waits for the store", async || {
        (replica.ask("/readyz").await.body == said).then_some(())
    })
    .await;
    assert_eq!(replica.ask("/readyz").await.status, 503);
    postgres.open().await;
    replica.waits_for(&json!(["queue", "cluster"])).await;
    replica.wait_for_log("waiting for the queue (queue.url)").await;
    replica.wait_for_log("waiting for the cluster (cluster.url)").await;
    cluster.open().await;
    replica.waits_for(&json!(["queue"])).await;
    queue.open().await;
    replica.ready().await;
    replica.stop().await;
}

/// A ready replica stays ready without the queue and the cluster, because the API works without
/// them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_outage_of_the_queue_does_not_end_readiness() {
    let mut redis = RedisServer::start(&[]).await;
    let mut world = World::new(&[]).await;
    world.set("PUNCTUAL_QUEUE_URL", redis.url());
    let key = world.key();
    let replica = world.replica(&[]).await;
    redis.kill();
    let api = replica.client(&key);
    assert_eq!(api.get("/v1/schedules").await.status, 200);
    assert_eq!(replica.ask("/readyz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_with_another_password_is_reported() {
    let redis = RedisServer::start(&[]).await;
    let mut world = World::new(&[]).await;
    world.set("PUNCTUAL_QUEUE_URL", redis.url_with("wrong-one"));
    let mut replica = world.start(&[]).await;
    replica.waits_for(&json!(["queue"])).await;
    replica.wait_for_log("the password of PUNCTUAL_QUEUE_URL").await;
    let said = replica.read_log();
    assert!(!said.contains("wrong-one") && !said.contains(PASSWORD), "{said}");
    replica.stop().await;
}

/// F25: a replica that starts waits until the queue has free memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_waits_for_a_full_queue() {
    let redis = RedisServer::start(&["--maxmemory", "100kb"]).await;
    let mut world = World::new(&[]).await;
    world.set("PUNCTUAL_QUEUE_URL", redis.url());
    let mut replica = world.start(&[]).await;
    replica.waits_for(&json!(["queue"])).await;
    replica.wait_for_log("has used up its maxmemory").await;
    let mut more = redis::cmd("CONFIG");
    let _: () = redis.run(more.arg("SET").arg("maxmemory").arg("0")).await;
    replica.ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_only_reads_is_reported() {
    let redis = RedisServer::start(&["--replicaof", "127.0.0.1 1"]).await;
    let mut world = World::new(&[]).await;
    world.set("PUNCTUAL_QUEUE_URL", redis.url());
    let mut replica = world.start(&[]).await;
    replica.waits_for(&json!(["queue"])).await;
    replica.wait_for_log("PUNCTUAL_QUEUE_URL must name the primary").await;
    let mut promote = redis::cmd("REPLICAOF");
    let _: () = redis.run(promote.arg("NO").arg("ONE")).await;
    replica.ready().await;
}

/// F26: a replica warns about a queue that may evict entries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_may_evict_entries_causes_a_warning() {
    let redis = RedisServer::start(&["--maxmemory-policy", "allkeys-lru"]).await;
    let mut world = World::new(&[]).await;
    world.set("PUNCTUAL_QUEUE_URL", redis.url());
    let replica = world.replica(&[]).await;
    replica.wait_for_log("set its maxmemory-policy to noeviction").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_refuses_the_user_is_reported() {
    let mut world = World::new(&[]).await;
    let servers = shared("PUNCTUAL_TEST_ETCD");
    let url = servers.replacen("etcd://", "etcd://me:hunter2@", 1);
    world.set("PUNCTUAL_CLUSTER_URL", format!("{url}/{}", world.prefix));
    let mut replica = world.start(&[]).await;
    replica.waits_for(&json!(["cluster"])).await;
    replica.wait_for_log("the password of PUNCTUAL_CLUSTER_URL").await;
    assert!(!replica.read_log().contains("hunter2"), "{}", replica.read_log());
}

/// A replica does not lead under the prefix of another installation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefix_of_another_installation_is_reported() {
    let mut world = World::new(&[]).await;
    let owner = world.replica(&[]).await;
    let other = World::new(&[]).await;
    let url = format!("{}/{}", shared("PUNCTUAL_TEST_ETCD"), other.prefix);
    let theirs = url.replace(&other.prefix, &world.prefix);
    let mut foreign_replica = other.start(&[("PUNCTUAL_CLUSTER_URL", &theirs)]).await;
    foreign_replica.waits_for(&json!(["cluster"])).await;
    foreign_replica.wait_for_log("give each installation a prefix of its own").await;
    assert_eq!(owner.ask("/readyz").await.status, 200);
    // On a busy machine, a lease of 2 s may end before its renewal.
    until("the owner leads shards", async || (!owner.shards().await.is_empty()).then_some(()))
        .await;
    foreign_replica.stop().await;
    world.set("PUNCTUAL_CLUSTER_URL", theirs);
    world.replica(&[]).await;
}

/// A replica repeats each query of its start until it succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_held_while_it_starts_is_waited_for() {
    let world = World::new(&[]).await;
    world.key();
    let mut other_session = world.second_connection().await;
    let mut held = other_session.begin().await.expect("begin");
    run(&mut held, "LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE").await;
    let mut replica = world.start(&[]).await;
    replica.wait_for_log("another replica is preparing the store").await;
    held.rollback().await.expect("roll back");
    replica.ready().await;
}
