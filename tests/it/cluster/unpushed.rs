//! Leaders that die between firing and pushing: for jobs that wait for their tickets, and for jobs
//! that were claimed in the statement that fired them.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::domain::{JobId, ScheduleId};
use punctual::runtime::faults::FaultPoint;
use serde_json::json;
use sqlx::types::Uuid;

use super::history::Job;
use super::world::{USUAL, World};
use crate::harness::client::schedule;
use crate::harness::states::{of_a_tick, running};
use crate::harness::wait::live_for;

impl World {
    /// Returns the shards that a replica leads.
    async fn led_by(&self, index: usize) -> Vec<i32> {
        let led = self.leaders().await.into_iter().filter(|(_, leader)| *leader == index);
        led.map(|(shard, _)| shard).collect()
    }

    /// Returns the jobs of these schedules in the last batch that a replica process fired. If it
    /// died then, their tickets were never pushed.
    async fn fired_last_by(&self, life: &str, schedules: &BTreeSet<String>) -> BTreeSet<String> {
        let schedules = schedules.iter().map(|id| id.parse::<ScheduleId>().expect("an id"));
        let schedules: Vec<_> = schedules.map(|id| Uuid::from_bytes(id.to_bytes())).collect();
        let ids: Vec<Uuid> = sqlx::query_scalar(
            "WITH fired AS (
                SELECT a.number, j.id, j.shard, j.created_at FROM audit AS a
                JOIN runs AS j ON j.id = a.job
                WHERE a.kind = 'job' AND a.life = $1 AND j.schedule_id = ANY ($2))
             SELECT id FROM fired
             WHERE (shard, created_at) =
                   (SELECT shard, created_at FROM fired ORDER BY number DESC LIMIT 1)",
        )
        .bind(life)
        .bind(schedules)
        .fetch_all(&mut self.stores.store.second_connection().await)
        .await
        .expect("read");
        ids.into_iter().map(|id| JobId::from_bytes(id.into_bytes()).to_string()).collect()
    }

    /// Returns the jobs of ticks in these shards whose first attempt has been running for a while.
    async fn running_in(&self, shards: &[i32]) -> BTreeSet<String> {
        let mut store = self.stores.store.second_connection().await;
        let mut read = async || -> BTreeSet<String> {
            let ids: Vec<Uuid> = sqlx::query_scalar(concat!(
                "SELECT id FROM runs WHERE shard = ANY ($1) AND attempt_number = 1 AND ",
                running!(),
                " AND ",
                of_a_tick!()
            ))
            .bind(shards)
            .fetch_all(&mut store)
            .await
            .expect("read");
            ids.into_iter().map(|id| JobId::from_bytes(id.into_bytes()).to_string()).collect()
        };
        let first = read().await;
        // Jobs that others were about to claim or to finish are no longer in this state.
        live_for(Duration::from_millis(700)).await;
        first.intersection(&read().await).cloned().collect()
    }
}

/// F02: the job rescuer finds jobs that were fired and not pushed. These jobs have one attempt and
/// cannot be claimed in the statement that fires them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_whose_leader_dies_before_it_pushes_their_tickets_run_once() {
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
    world.begin_fault();
    world.replicas[leader].at(FaultPoint::AfterFire, "die");
    world.replicas[leader].died().await;
    let left = world.fired_last_by(&world.replicas[leader].process_name(), &once).await;
    world.restart_once_replaced(leader).await;
    world.minutes(1.0).await;
    let history = world.holds().await;
    let own: Vec<_> = history.jobs.iter().filter(|job| left.contains(&job.id)).collect();
    assert!(!own.is_empty(), "none of {} was left without a ticket", left.len());
    for job in own {
        let twins = history.jobs.iter().filter(|other| {
            (&other.schedule, other.tick) == (&job.schedule, job.tick) && other.is_of_tick()
        });
        assert_eq!((twins.count(), history.hits_of(&job.id).count()), (1, 1), "{job:?}");
        assert_eq!((job.status.as_str(), job.number), ("SUCCESS", 1), "{job:?}");
    }
}

/// F02: jobs that were claimed in the statement that fired them lose only one attempt with their
/// leader, which also executes them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_started_by_a_leader_that_dies_continue_with_their_next_attempt() {
    let mut world = World::start(USUAL).await;
    world.part_of_minute(0.5).await;
    let leader = world.leader_of(0).await;
    let led = world.led_by(leader).await;
    world.begin_fault();
    world.replicas[leader].at(FaultPoint::AfterStart, "die");
    world.replicas[leader].died().await;
    let left = world.running_in(&led).await;
    world.restart_once_replaced(leader).await;
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
