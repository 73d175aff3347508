//! Leaders that die between firing and telling anybody: of jobs that wait for their tickets, and of
//! jobs that were claimed as they were fired.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::domain::JobId;
use punctual::runtime::faults::Point;
use serde_json::json;
use sqlx::types::Uuid;

use super::history::Job;
use super::world::{USUAL, World};
use crate::harness::client::schedule;
use crate::harness::wait::live_for;

impl World {
    /// The shards that a replica leads.
    async fn led_by(&self, place: usize) -> Vec<i32> {
        let led = self.leaders().await.into_iter().filter(|(_, leader)| *leader == place);
        led.map(|(shard, _)| shard).collect()
    }

    /// The first attempts of jobs of these shards that are as far as this, and have been for a while.
    async fn left_in(&self, shards: &[i32], status: i16, attempt: i16) -> BTreeSet<String> {
        let mut store = self.stores.store.beside().await;
        let mut read = async || -> BTreeSet<String> {
            let ids: Vec<Uuid> = sqlx::query_scalar(
                "SELECT id FROM jobs
                 WHERE shard = ANY ($1) AND status = $2 AND attempt_number = $3
                   AND trigger IN (0, 2)",
            )
            .bind(shards)
            .bind(status)
            .bind(attempt)
            .fetch_all(&mut store)
            .await
            .expect("read");
            ids.into_iter().map(|id| JobId::from_bytes(id.into_bytes()).to_string()).collect()
        };
        let first = read().await;
        // What others were just about to take or to end is no longer so.
        live_for(Duration::from_millis(700)).await;
        first.intersection(&read().await).cloned().collect()
    }
}

/// F02: what was fired and not pushed is found by the sweep. These jobs have one attempt, and cannot
/// be claimed as they are fired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_whose_leader_dies_before_their_tickets_run_once() {
    let mut world = World::start(USUAL).await;
    let policies = ["skip", "queue_one"].into_iter().cycle().take(48);
    let once = policies.map(|policy| {
        let fields = json!({
            "name": world.users.name(),
            "cronExpression": "*/1 * * * *",
            "maxRetries": 1,
            "overlapPolicy": policy,
        });
        schedule(&world.target.url("/ok"), fields)
    });
    let once: BTreeSet<_> = world.users.create(0, 1, once.collect()).await.into_iter().collect();
    world.part_of_minute(0.5).await;
    let leader = world.leader_of(0).await;
    let led = world.led_by(leader).await;
    world.trouble();
    world.replicas[leader].at(Point::AfterFire, "die");
    world.replicas[leader].died().await;
    let left = world.left_in(&led, 0, 0).await;
    world.comes_back(leader).await;
    world.minutes(1.0).await;
    let history = world.holds().await;
    let own = |job: &&Job| left.contains(&job.id) && once.contains(&job.schedule);
    let own: Vec<_> = history.jobs.iter().filter(own).collect();
    assert!(!own.is_empty(), "none of {} was left without a ticket", left.len());
    for job in own {
        let twins = history.jobs.iter().filter(|other| {
            (&other.schedule, other.tick) == (&job.schedule, job.tick) && other.is_of_tick()
        });
        assert_eq!((twins.count(), history.hits_of(&job.id).count()), (1, 1), "{job:?}");
        assert_eq!((job.status.as_str(), job.number), ("SUCCESS", 1), "{job:?}");
    }
}

/// F02, of jobs that are claimed as they are fired: they lose one attempt with their leader, which
/// executes them itself, and nothing more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_were_started_by_a_leader_that_dies_go_on_with_their_next_attempt() {
    let mut world = World::start(USUAL).await;
    world.part_of_minute(0.5).await;
    let leader = world.leader_of(0).await;
    let led = world.led_by(leader).await;
    world.trouble();
    world.replicas[leader].at(Point::AfterStart, "die");
    world.replicas[leader].died().await;
    let left = world.left_in(&led, 1, 1).await;
    world.comes_back(leader).await;
    world.minutes(1.5).await;
    let history = world.holds().await;
    let own: Vec<_> = history.jobs.iter().filter(|job| left.contains(&job.id)).collect();
    let sent = |job: &Job| u32::try_from(history.hits_of(&job.id).count()).expect("few");
    for job in &own {
        let lost =
            job.attempts.iter().filter(|one| one.error.as_deref() == Some("WORKER_LOST")).count();
        assert_eq!((job.status.as_str(), lost), ("SUCCESS", 1), "{job:?}");
        assert!((job.number - 1..=job.number).contains(&sent(job)), "{job:?}");
    }
    assert!(own.iter().any(|job| sent(job) == job.number - 1), "of {}: all were sent", own.len());
}
