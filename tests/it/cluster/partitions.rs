//! A leader is cut off from servers that the other replicas reach, or is paused while a server, or
//! all but the store, are down.

use std::time::Duration;

use punctual::runtime::faults::FaultPoint;

use super::load::kinds;
use super::stores::{LEASE, ServerKind};
use super::world::{MINUTE_OUTAGE, TAKEOVER_BOUND, USUAL, World, WorldConfig};
use crate::harness::link::Mood;
use crate::harness::wait::{TIMEOUT, live_for, within};

/// The maximum lag of ticks of a leader that cannot reach the queue.
const GOES_ON: Duration = Duration::from_secs(2);
/// The maximum lag of ticks after a leader was replaced through the store: the claim time, which is
/// its lease there, and 15 s.
const STORE_TAKEOVER_BOUND: Duration = Duration::from_secs(5 + 15);

impl World {
    /// Cuts a replica off from servers for half a minute, once by closed and once by silent
    /// connections.
    async fn cut_off(&mut self, index: usize, servers: &[ServerKind]) {
        for mood in [Mood::Cut, Mood::Silent] {
            for server in servers {
                self.replicas[index].links.set(*server, mood);
            }
            live_for(MINUTE_OUTAGE / 2).await;
            for server in servers {
                self.replicas[index].links.set(*server, Mood::Open);
            }
            self.minutes(1.0).await;
        }
    }

    /// Waits until others lead the shards of a leader, for at most `within_time`.
    async fn is_replaced(&self, index: usize, within_time: Duration) {
        within(within_time, "other replicas lead the shards of the old leader", async || {
            self.leaders().await.iter().all(|(_, leader)| *leader != index).then_some(())
        })
        .await;
    }

    /// Pauses the leader of shard 0 between the check of its term and its write, until others have
    /// taken over its shards by the store and have fired. Its write must be fenced.
    async fn is_fenced_by_the_store(&mut self) {
        let stale = self.leader_of(0).await;
        self.part_of_minute(0.6).await;
        self.begin_fault();
        self.replicas[stale].at(FaultPoint::BeforeFire, "stop");
        self.replicas[stale].paused().await;
        let paused_at = self.lapse.now();
        self.replicas[stale].hide_from_users();
        self.is_replaced(stale, STORE_TAKEOVER_BOUND).await;
        self.fires_up_to(paused_at, TIMEOUT).await;
        self.replicas[stale].clear_fault_points();
        self.replicas[stale].resume();
        let process = self.replicas[stale].process();
        within(Duration::from_secs(10), "a write of the resumed leader is fenced", async || {
            (process.counter("punctual_fenced_writes_total").await > 0).then_some(())
        })
        .await;
        self.replicas[stale].ready().await;
        self.end_fault();
        self.minutes(1.0).await;
    }

    /// Pauses a leader until others lead its shards, for at most `within_time`, and resumes it.
    async fn sleeps_until_replaced(&mut self, index: usize, within_time: Duration) {
        self.begin_fault();
        self.replicas[index].hide_from_users();
        self.replicas[index].pause();
        self.is_replaced(index, within_time).await;
        live_for(LEASE).await;
        self.replicas[index].resume();
        self.replicas[index].ready().await;
        self.end_fault();
        self.minutes(1.0).await;
    }
}

/// The leader fires from its own memory, and finds changes of users by comparing with the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_from_the_queue_alone_fires_on() {
    let settings = &[("PUNCTUAL_EXECUTOR_CLAIM_SECONDS", "30")];
    let mut world = World::start(WorldConfig { settings, ..USUAL }).await;
    world.fires_on(GOES_ON);
    let leader = world.leader_of(0).await;
    world.cut_off(leader, &[ServerKind::Redis]).await;
    world.holds().await;
}

/// Its hints reach no leader. The leaders learn from the store that it lacks the queue, and find
/// its schedules by comparing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_of_a_replica_that_is_cut_off_from_the_queue_fire_on_time() {
    let mut world = World::start(USUAL).await;
    world.fires_on(GOES_ON);
    let cut_off = world.leader_of(0).await;
    world.replicas[cut_off].links.set(ServerKind::Redis, Mood::Silent);
    live_for(LEASE * 2).await;
    for (index, replica) in world.replicas.iter().enumerate() {
        if index != cut_off {
            replica.hide_from_users();
        }
    }
    world.part_of_minute(0.3).await;
    let batch = kinds(&world.users, &world.target.url(""), 40, 1);
    world.users.create(0, 1, batch).await;
    world.minutes(3.0).await;
    world.replicas[cut_off].links.set(ServerKind::Redis, Mood::Open);
    world.minutes(1.0).await;
    world.holds().await;
}

/// Other replicas take over its shards through etcd, and no tick fires twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_from_queue_and_etcd_is_replaced() {
    let settings = &[("PUNCTUAL_EXECUTOR_CLAIM_SECONDS", "30")];
    let mut world = World::start(WorldConfig { settings, ..USUAL }).await;
    world.fires_on(TAKEOVER_BOUND);
    let leader = world.leader_of(0).await;
    world.cut_off(leader, &[ServerKind::Redis, ServerKind::Etcd]).await;
    world.holds().await;
}

/// Other replicas take over its shards through the store, and its later writes are fenced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_paused_without_etcd_changes_nothing_when_it_resumes() {
    let mut world = World::start(WorldConfig { etcd_members: 1, ..USUAL }).await;
    world.fires_on(STORE_TAKEOVER_BOUND);
    let leader = world.leader_of(0).await;
    let etcd = world.stores.etcd.as_mut().expect("the test's own");
    etcd.kill(0);
    live_for(LEASE * 2).await;
    world.sleeps_until_replaced(leader, STORE_TAKEOVER_BOUND).await;
    let etcd = world.stores.etcd.as_mut().expect("the test's own");
    etcd.restart(0);
    etcd.ready().await;
    world.minutes(2.0).await;
    world.holds().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_paused_without_the_queue_changes_nothing_when_it_resumes() {
    let mut world = World::start(USUAL).await;
    world.fires_on(TAKEOVER_BOUND + GOES_ON);
    let leader = world.leader_of(0).await;
    world.stores.redis.kill();
    live_for(Duration::from_secs(5)).await;
    world.sleeps_until_replaced(leader, LEASE * 4).await;
    world.stores.redis.restart().await;
    world.minutes(2.0).await;
    world.holds().await;
}

/// Other replicas take over its shards by a compare-and-set of the epoch, because neither etcd nor
/// the queue is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_paused_with_the_store_alone_changes_nothing_when_it_resumes() {
    let mut world = World::start(WorldConfig { etcd_members: 1, ..USUAL }).await;
    world.fires_on(STORE_TAKEOVER_BOUND);
    let leader = world.leader_of(0).await;
    world.stores.etcd.as_mut().expect("the test's own").kill(0);
    world.stores.redis.kill();
    live_for(LEASE * 2).await;
    assert_eq!(world.leader_of(0).await, leader, "it keeps leading");
    world.sleeps_until_replaced(leader, STORE_TAKEOVER_BOUND).await;
    world.is_fenced_by_the_store().await;
    world.stores.redis.restart().await;
    let etcd = world.stores.etcd.as_mut().expect("the test's own");
    etcd.restart(0);
    etcd.ready().await;
    world.minutes(2.0).await;
    world.holds().await;
}
