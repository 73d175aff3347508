//! Operators read in the log when a replica begins to go on without a server, and when it has that
//! server back: one line at each change.

use std::time::Duration;

use super::replica::Replica;
use super::world::{Plan, USUAL, World};
use crate::harness::wait::within;

const ETCD_AWAY: &str =
    "etcd is away: this replica keeps leading its shards, by the store (cluster.url)";
const ETCD_BACK: &str = "etcd assigns the leaders of the shards";
const QUEUE_AWAY: &str = "the queue is away: ticks go on from the store (queue.url)";
const QUEUE_BACK: &str = "the queue is back, rebuilding due indexes";

/// A lease of etcd lasts 10 s, so that no renewal is late for it because a machine is busy: that would
/// be a change of its own.
const PLAN: Plan = Plan {
    etcd_members: 1,
    schedules: 12,
    users: 0,
    settings: &[("PUNCTUAL_CLUSTER_LEASE_SECONDS", "10")],
    ..USUAL
};

/// How soon a change is told: a lease of etcd ends after 10 s, a new one is granted within 15 s of
/// etcd's return; the queue must answer for 3 s first. The rest is a busy machine's share.
const TOLD: Duration = Duration::from_secs(40);

/// How often a replica has told each of the changes.
fn told(replica: &Replica) -> [usize; 4] {
    let log = replica.process().log();
    [ETCD_AWAY, ETCD_BACK, QUEUE_AWAY, QUEUE_BACK]
        .map(|message| log.iter().filter(|line| line["message"] == message).count())
}

impl World {
    /// Waits until all replicas have told so many of each.
    async fn have_told(&self, what: &str, counts: [usize; 4]) {
        within(TOLD, what, async || {
            self.replicas.iter().all(|replica| told(replica) == counts).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_of_mode_is_told_once() {
    let mut world = World::start(PLAN).await;
    world.have_told("all is well", [0, 1, 0, 0]).await;
    world.stores.etcd.as_mut().expect("the test's own").kill(0);
    world.have_told("etcd is away", [1, 1, 0, 0]).await;
    let etcd = world.stores.etcd.as_mut().expect("the test's own");
    etcd.restart(0);
    etcd.ready().await;
    world.have_told("etcd is back", [1, 2, 0, 0]).await;
    world.stores.redis.kill();
    world.have_told("the queue is away", [1, 2, 1, 0]).await;
    world.stores.redis.restart().await;
    world.have_told("the queue is back", [1, 2, 1, 1]).await;
    // Ticks, sweeps and renewals go on, and tell nothing more.
    world.minutes(2.0).await;
    world.have_told("nothing has changed", [1, 2, 1, 1]).await;
}
