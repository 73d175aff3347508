//! Replicas that start before their servers.

use std::time::Duration;

use super::stores::Store;
use super::world::{USUAL, World, WorldConfig};
use crate::harness::postgres::Stop;
use crate::harness::wait::{live_for, until};

/// F83: replicas wait for their servers and then become ready.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_wait_for_their_servers() {
    let config = WorldConfig { own_store: true, etcd_members: 1, schedules: 30, ..USUAL };
    let mut world = World::prepare(config).await;
    let Store::Own(postgres) = &mut world.stores.store else { panic!("the test's own") };
    postgres.stop(Stop::Fast).await;
    world.stores.redis.kill();
    world.stores.etcd.as_mut().expect("the test's own").kill(0);
    let count = world.replicas.len();
    let ports: Vec<_> = (0..count).map(|_| crate::harness::servers::free_port()).collect();
    for (index, port) in ports.iter().enumerate() {
        let address = format!("127.0.0.1:{port}");
        world.replicas[index].settings.push(("PUNCTUAL_OPS_LISTEN", address));
        world.launch(index);
    }
    let status = async |port: u16, path: &str| {
        let api = crate::harness::client::ApiClient::new(([127, 0, 0, 1], port).into(), "");
        api.call("GET", path, None).await.ok().map(|reply| reply.status)
    };
    for port in &ports {
        until("the replica is alive", async || {
            (status(*port, "/healthz").await == Some(200)).then_some(())
        })
        .await;
        assert_eq!(status(*port, "/readyz").await, Some(503), "and is not ready");
    }
    // This order makes the servers wait longest for each other.
    world.stores.etcd.as_mut().expect("the test's own").restart(0);
    live_for(Duration::from_secs(1)).await;
    let Store::Own(postgres) = &mut world.stores.store else { panic!("the test's own") };
    postgres.restart().await;
    live_for(Duration::from_secs(1)).await;
    world.stores.redis.restart().await;
    for replica in &mut world.replicas {
        replica.ready().await;
    }
    world.load().await;
    world.minutes(1.0).await;
    assert!(
        world.replicas.iter_mut().all(|replica| !replica.has_ended()),
        "no replica has given up"
    );
    world.holds().await;
}
