//! Tests of the suite: an oracle of a recorded history detects each deliberate defect.

use std::time::Duration;

use punctual::runtime::faults::{Defect, Point};

use super::oracles::{names, told};
use super::world::{Plan, USUAL, World};
use crate::harness::wait::live_for;

const fn with(defect: Defect) -> Plan {
    Plan { defect: Some(defect), ..USUAL }
}

/// Asserts that the run violates this invariant.
async fn caught(world: &mut World, invariant: &str) {
    let violations = world.violations().await;
    assert!(names(&violations).contains(invariant), "not caught:\n{}", told(&violations));
    println!("caught:\n{}", told(&violations[..violations.len().min(5)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn firing_without_the_epoch_is_caught() {
    let mut world = World::start(with(Defect::NoEpochCheck)).await;
    world.wake_a_leader_into_anothers_term().await;
    caught(&mut world, "I10").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_without_the_key_of_their_tick_are_caught() {
    let mut world = World::start(with(Defect::NoTickKey)).await;
    world.wake_a_leader_after_another_has_fired().await;
    caught(&mut world, "I2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answering_before_the_write_is_caught() {
    let mut world = World::start(with(Defect::EarlyAnswer)).await;
    world.trouble();
    for place in 0..2 {
        world.replicas[place].kill();
        world.restart(place).await;
    }
    world.healed();
    caught(&mut world, "I7").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tickets_before_their_jobs_are_caught() {
    let slower = Plan { factor: 6, users: 0, ..with(Defect::EarlyTicket) };
    let mut world = World::start(slower).await;
    world.minutes(1.0).await;
    world.calm = true;
    world.prompt = true;
    caught(&mut world, "I8").await;
}

/// Without a defect, the checks of the last test find nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_defect_jobs_start_promptly() {
    let mut world = World::start(Plan { factor: 6, ..USUAL }).await;
    world.minutes(1.0).await;
    world.calm = true;
    world.prompt = true;
    world.latest_ms = Some(1_500);
    world.holds().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_without_a_claim_are_caught() {
    let mut world = World::start(with(Defect::NoClaimCheck)).await;
    world.wake_an_executor_too_late().await;
    caught(&mut world, "I5").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_sweep_is_caught() {
    let mut world = World::start(Plan { users: 0, ..with(Defect::NoSweep) }).await;
    let leader = world.leader_of(0).await;
    world.trouble();
    world.replicas[leader].at(Point::AfterFire, "die");
    world.replicas[leader].died().await;
    world.restart(leader).await;
    world.healed();
    live_for(Duration::from_secs(3)).await;
    caught(&mut world, "I4").await;
}
