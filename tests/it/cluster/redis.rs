//! Redis fails, returns, loses data, and is slow or full. API calls must succeed meanwhile, so
//! these tests announce no fault.

use std::time::Duration;

use redis::cmd;

use super::stores::ServerKind;
use super::world::{MINUTE_OUTAGE, USUAL, World, WorldConfig};
use crate::harness::link::Mood;
use crate::harness::wait::live_for;

/// The maximum lag of ticks while the queue is down.
const GOES_ON: Duration = Duration::from_secs(2);

impl World {
    fn all_links(&self, mood: Mood) {
        self.replicas.iter().for_each(|replica| replica.links.set(ServerKind::Redis, mood));
    }
}

/// F20, F21, F27: a queue that lost its data or its scripts is filled again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_wiped_is_filled_again() {
    let mut world = World::start(USUAL).await;
    world.fires_on(Duration::from_secs(10));
    // 1,000 schedules with those that tick each minute. Most of the 940 tick once or twice
    // meanwhile.
    let waiting = super::load::kinds(&world.users, &world.target.url(""), 940, 3);
    world.users.create(0, 3, waiting).await;
    world.part_of_minute(0.5).await;
    let _: () = world.stores.redis.run(&cmd("FLUSHALL")).await;
    world.minutes(1.2).await;
    let _: () = world.stores.redis.run(cmd("SCRIPT").arg("FLUSH")).await;
    world.minutes(1.0).await;
    world.stores.redis.restart().await;
    world.minutes(1.5).await;
    world.holds().await;
}

/// F22: a failover loses the last writes of the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_lost_the_last_writes_doubles_and_loses_nothing() {
    let mut world = World::start(USUAL).await;
    world.fires_on(Duration::from_secs(10));
    for part in [0.9, 0.1] {
        world.part_of_minute(part).await;
        let _: () = world.stores.redis.run(&cmd("SAVE")).await;
        live_for(Duration::from_secs(1)).await;
        world.stores.redis.restart().await;
        world.minutes(1.0).await;
    }
    world.holds().await;
}

/// F23: while the queue is down, users are served and ticks fire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_and_calls_continue_without_the_queue() {
    let settings = &[("PUNCTUAL_EXECUTOR_CLAIM_SECONDS", "30")];
    let mut world = World::start(WorldConfig { settings, ..USUAL }).await;
    world.fires_on(GOES_ON);
    world.stores.redis.kill();
    live_for(MINUTE_OUTAGE).await;
    world.stores.redis.restart().await;
    world.minutes(2.0).await;
    world.holds().await;
}

/// F23: the queue is connected but does not respond.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_continue_while_the_queue_is_silent() {
    let settings = &[("PUNCTUAL_EXECUTOR_CLAIM_SECONDS", "30")];
    let mut world = World::start(WorldConfig { settings, ..USUAL }).await;
    world.fires_on(GOES_ON);
    world.all_links(Mood::Silent);
    live_for(MINUTE_OUTAGE / 2).await;
    world.all_links(Mood::Open);
    world.minutes(2.0).await;
    world.holds().await;
}

/// F23: the queue fails and returns repeatedly. The indexes that are built at each change lose and
/// double nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_continue_while_the_queue_fails_and_returns() {
    let mut world = World::start(USUAL).await;
    world.fires_on(GOES_ON);
    for _ in 0..5 {
        world.stores.redis.kill();
        live_for(Duration::from_secs(5)).await;
        world.stores.redis.restart().await;
        live_for(Duration::from_secs(5)).await;
    }
    world.minutes(1.0).await;
    world.holds().await;
}

/// F24: a queue that responds late loses and doubles nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_answers_late_doubles_and_loses_nothing() {
    let mut world = World::start(USUAL).await;
    for slow in [600, 1_500] {
        world.all_links(Mood::Slow(Duration::from_millis(slow)));
        world.minutes(1.5).await;
        world.all_links(Mood::Open);
        world.minutes(1.0).await;
    }
    world.holds().await;
}

/// F25: a full queue rejects pushes, but tickets can still be taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tickets_of_a_full_queue_are_still_taken() {
    let mut world = World::start(USUAL).await;
    world.fires_on(GOES_ON);
    let limit = |bytes: &str| {
        let mut set = cmd("CONFIG");
        set.arg("SET").arg("maxmemory").arg(bytes);
        set
    };
    let _: () = world.stores.redis.run(&limit("1")).await;
    world.minutes(2.0).await;
    let _: () = world.stores.redis.run(&limit("0")).await;
    world.minutes(1.5).await;
    world.holds().await;
}
