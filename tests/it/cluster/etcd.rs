//! etcd fails, returns and loses data. API calls must succeed meanwhile, so most of these tests
//! announce no fault.

use std::collections::BTreeSet;
use std::time::Duration;

use super::stores::{LEASE, ServerKind};
use super::world::{MINUTE_OUTAGE, TAKEOVER_BOUND, USUAL, World, WorldConfig};
use crate::harness::link::Mood;
use crate::harness::wait::{live_for, within};

/// The maximum time until shards have leaders after etcd is back, on a busy machine.
const LED_AGAIN: Duration = Duration::from_secs(3 + 10 + 2);

/// The time for which etcd has no leader and renews no leases after its leading member is gone. The
/// next leader restarts all leases. This is twice the `election-timeout` of one second.
const ELECTED: Duration = Duration::from_secs(2);

/// The maximum lag of ticks while etcd is down.
const GOES_ON: Duration = Duration::from_secs(2);

impl World {
    fn etcd(&mut self) -> &mut crate::harness::servers::EtcdServers {
        self.stores.etcd.as_mut().expect("the test's own")
    }

    /// Waits until each schedule has fired the ticks that are due now.
    async fn ticks_again(&self) {
        self.fires_up_to(self.lapse.now(), LED_AGAIN).await;
    }
}

/// F09: members of etcd that restart one after the other delay ticks only by an etcd election and
/// the replacement of a leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_of_etcd_delays_ticks_only_by_an_election() {
    let mut world = World::start(WorldConfig { etcd_members: 3, ..USUAL }).await;
    world.fires_on(ELECTED + TAKEOVER_BOUND);
    for member in 0..3 {
        world.etcd().kill(member);
        world.minutes(0.6).await;
        world.etcd().restart(member);
        world.etcd().ready().await;
    }
    // Changes are still followed in all shards. With 70 schedules, the probability that one of the
    // eight shards gets none is about 1 in 1,000.
    let late = super::load::kinds(&world.users, &world.target.url(""), 70, 1);
    world.users.create(0, 1, late).await;
    world.minutes(1.5).await;
    world.holds().await;
}

/// F10: without a majority of etcd, leaders keep leading and fire on time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_continue_without_a_majority_of_etcd() {
    let mut world = World::start(WorldConfig { etcd_members: 3, ..USUAL }).await;
    world.fires_on(GOES_ON);
    let leaders = world.leaders().await;
    world.etcd().kill(0);
    world.etcd().kill(1);
    live_for(MINUTE_OUTAGE / 2).await;
    assert_eq!(world.leaders().await, leaders, "no shard was taken over");
    world.etcd().restart(0);
    world.etcd().restart(1);
    world.etcd().ready().await;
    world.minutes(2.0).await;
    world.holds().await;
}

/// F10: ticks continue while etcd fails and returns repeatedly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_continue_while_etcd_fails_and_returns() {
    let mut world = World::start(WorldConfig { etcd_members: 1, ..USUAL }).await;
    world.fires_on(TAKEOVER_BOUND);
    for _ in 0..10 {
        world.etcd().kill(0);
        live_for(Duration::from_secs(5)).await;
        world.etcd().restart(0);
        world.etcd().ready().await;
        live_for(Duration::from_secs(5)).await;
    }
    world.minutes(1.0).await;
    world.holds().await;
}

/// The maximum lag of ticks after a leader died that etcd cannot report: the claim time, which is
/// the lease in the store, and 15 s.
const STORE_TAKEOVER_BOUND: Duration = Duration::from_secs(5 + 15);

/// A leader that dies while etcd is down is replaced, also one that started in the meantime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_dies_without_etcd_is_replaced() {
    let mut world = World::start(WorldConfig { etcd_members: 1, ..USUAL }).await;
    world.fires_on(STORE_TAKEOVER_BOUND);
    let leader = world.leader_of(0).await;
    world.etcd().kill(0);
    live_for(LEASE * 2).await;
    world.begin_fault();
    world.replicas[leader].kill();
    within(
        STORE_TAKEOVER_BOUND,
        "other replicas lead the shards of the killed leader",
        async || world.leaders().await.iter().all(|(_, index)| *index != leader).then_some(()),
    )
    .await;
    world.minutes(1.0).await;
    // A replica that starts without etcd takes part. After the others are killed, it leads all
    // shards.
    world.restart(leader).await;
    for other in (0..world.replicas.len()).filter(|index| *index != leader) {
        world.replicas[other].kill();
    }
    within(STORE_TAKEOVER_BOUND, "the new replica leads all shards", async || {
        world.leaders().await.iter().all(|(_, index)| *index == leader).then_some(())
    })
    .await;
    world.minutes(1.0).await;
    world.etcd().restart(0);
    world.etcd().ready().await;
    for other in (0..world.replicas.len()).filter(|index| *index != leader) {
        world.restart(other).await;
    }
    world.end_fault();
    world.minutes(2.0).await;
    within(Duration::from_secs(30), "etcd assigns shards to all replicas again", async || {
        let leaders = world.leaders().await.into_iter();
        let leading: BTreeSet<usize> = leaders.map(|(_, index)| index).collect();
        (leading.len() == world.replicas.len()).then_some(())
    })
    .await;
    world.holds().await;
}

/// The maximum lag of a tick while a leader stops and etcd cannot report it. The leader tries for 2
/// s to end its lease in etcd, and then ends its lease in the store, which the others read every
/// second. The rest is for a busy machine.
const HANDED_OVER_BY_THE_STORE: Duration = Duration::from_secs(2 + 1 + 4);

/// A deploy during an outage of etcd: the replica that stops hands its shards over by the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_etcd_a_replica_that_stops_hands_its_shards_over() {
    let mut world = World::start(WorldConfig { etcd_members: 1, ..USUAL }).await;
    world.fires_on(HANDED_OVER_BY_THE_STORE);
    world.calm = true;
    let leader = world.leader_of(0).await;
    world.etcd().kill(0);
    // The leases in the store count when etcd has not answered for five seconds.
    live_for(LEASE + Duration::from_secs(5)).await;
    assert_eq!(world.leader_of(0).await, leader, "it keeps leading");
    world.replicas[leader].hide_from_users();
    live_for(Duration::from_millis(500)).await;
    world.replicas[leader].process().terminate();
    within(
        HANDED_OVER_BY_THE_STORE,
        "other replicas lead the shards of the stopping leader",
        async || world.leaders().await.iter().all(|(_, index)| *index != leader).then_some(()),
    )
    .await;
    let status = world.replicas[leader].ended(Duration::from_secs(15)).await;
    assert_eq!(status.code(), Some(0), "a clean stop");
    world.minutes(1.5).await;
    world.etcd().restart(0);
    world.etcd().ready().await;
    world.restart(leader).await;
    world.minutes(2.0).await;
    world.holds().await;
}

/// F87: neither the queue nor etcd: the store is enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_continue_with_the_store_alone() {
    let mut world = World::start(WorldConfig { etcd_members: 1, ..USUAL }).await;
    world.fires_on(GOES_ON);
    world.etcd().kill(0);
    world.stores.redis.kill();
    live_for(MINUTE_OUTAGE / 2).await;
    world.stores.redis.restart().await;
    world.etcd().restart(0);
    world.etcd().ready().await;
    world.minutes(2.0).await;
    world.holds().await;
}

/// F11: a replica that loses etcd loses its shards and continues to serve the API.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_loses_etcd_loses_its_shards_and_keeps_serving() {
    let mut world = World::start(USUAL).await;
    world.fires_on(TAKEOVER_BOUND);
    let leader = world.leader_of(0).await;
    world.replicas[leader].links.set(ServerKind::Etcd, Mood::Silent);
    world.led_without(leader).await;
    world.minutes(1.0).await;
    assert!(world.replicas[leader].process().is_ready().await, "it serves users");
    world.replicas[leader].links.set(ServerKind::Etcd, Mood::Open);
    world.minutes(1.0).await;
    world.holds().await;
}

/// F12, F13: shards are led again after etcd lost all or part of its data. Epochs come from the
/// store, so no leader is fenced off forever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_are_led_again_after_etcd_lost_all_or_part_of_its_data() {
    let mut world = World::start(WorldConfig { etcd_members: 1, ..USUAL }).await;
    world.etcd().kill(0);
    let old = world.etcd().copy(0);
    world.etcd().restart(0);
    world.etcd().ready().await;
    world.ticks_again().await;
    world.minutes(0.5).await;

    world.etcd().kill(0);
    world.etcd().wipe(0);
    world.etcd().restart(0);
    world.etcd().ready().await;
    world.ticks_again().await;
    world.minutes(0.5).await;

    world.etcd().kill(0);
    world.etcd().replace(0, &old);
    world.etcd().restart(0);
    world.etcd().ready().await;
    world.ticks_again().await;
    world.minutes(1.0).await;
    world.holds().await;
}
