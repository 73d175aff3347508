//! Tests of the suite: replicas with wrong statements violate an invariant, and an oracle of the
//! recorded history finds it.

use std::time::Duration;

use punctual::runtime::faults::FaultPoint;

use super::mutations::{
    LOST_TICKETS, Mutations, NO_CLAIM_CHECK, NO_EPOCH_CHECK, NO_RESCUE, NO_TICK_KEY, NO_WRITE,
};
use super::oracles::{formatted, names};
use super::world::{ONE_SHARD_EACH, USUAL, World, WorldConfig};
use crate::harness::wait::live_for;

const fn with(mutations: Mutations) -> WorldConfig {
    WorldConfig { mutations, ..USUAL }
}

/// Asserts that the run violates this invariant, and that the statements could be changed.
async fn caught(world: &mut World, invariant: &str) {
    let violations = world.violations().await;
    for replica in &world.replicas {
        let log = replica.process().log();
        let panic = log.iter().find(|line| line["message"] == "panicked");
        assert!(panic.is_none(), "{panic:?}");
    }
    assert!(names(&violations).contains(invariant), "not caught:\n{}", formatted(&violations));
    println!("caught:\n{}", formatted(&violations[..violations.len().min(5)]));
}

/// Starts a world in which the leader has no executor. So all jobs start by their tickets.
async fn with_tickets_only(config: WorldConfig) -> World {
    let mut world = World::prepare(config).await;
    let roles = ["api,scheduler,notifier", "api,executor", "api,executor"];
    for (replica, roles) in world.replicas.iter_mut().zip(roles) {
        replica.settings.push(("PUNCTUAL_ROLES", roles.to_owned()));
    }
    world.begin().await;
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn firing_without_the_epoch_is_caught() {
    let mut world = World::start(WorldConfig { mutations: NO_EPOCH_CHECK, ..ONE_SHARD_EACH }).await;
    world.wake_a_leader_into_anothers_term().await;
    caught(&mut world, "I10").await;
}

/// The wrong statement fires schedules whose jobs may overlap and that have not changed since they
/// were read. The leader pauses before its first batch of a minute, which can have a single
/// schedule. So all schedules have this policy, and no users change schedules or create others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_without_the_key_of_their_tick_are_caught() {
    let mut world = World::start(WorldConfig {
        overlap_policy: Some("allow"),
        users: 0,
        mutations: NO_TICK_KEY,
        ..ONE_SHARD_EACH
    })
    .await;
    world.wake_a_leader_after_another_has_fired().await;
    caught(&mut world, "I2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answering_without_the_write_is_caught() {
    let mut world = World::start(with(NO_WRITE)).await;
    world.minutes(1.0).await;
    caught(&mut world, "I7").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_tickets_are_caught() {
    let slower = WorldConfig { factor: 6, users: 0, ..with(LOST_TICKETS) };
    let mut world = with_tickets_only(slower).await;
    world.minutes(1.0).await;
    world.calm = true;
    world.prompt = true;
    caught(&mut world, "I8").await;
}

/// With the right statements, the checks of the last test find nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_start_promptly_by_their_tickets() {
    let mut world = with_tickets_only(WorldConfig { factor: 6, ..USUAL }).await;
    world.minutes(1.0).await;
    world.calm = true;
    world.prompt = true;
    world.latest_ms = Some(1_500);
    world.holds().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_without_a_claim_are_caught() {
    let mut world = World::start(with(NO_CLAIM_CHECK)).await;
    world.wake_an_executor_too_late().await;
    caught(&mut world, "I5").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_job_rescuer_is_caught() {
    let mut world = World::start(WorldConfig { users: 0, ..with(NO_RESCUE) }).await;
    let leader = world.leader_of(0).await;
    world.begin_fault();
    world.replicas[leader].at(FaultPoint::AfterFire, "die");
    world.replicas[leader].died().await;
    world.restart(leader).await;
    world.end_fault();
    live_for(Duration::from_secs(3)).await;
    caught(&mut world, "I4").await;
}
