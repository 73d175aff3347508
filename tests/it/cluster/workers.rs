//! Executors that crash, pause or stop during attempts.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual::runtime::faults::FaultPoint;
use serde_json::json;

use super::history::{Answer, ApiOperation, History, Job};
use super::world::{USUAL, World, WorldConfig};
use crate::harness::client::schedule;
use crate::harness::states::running;
use crate::harness::wait::{live_for, until, within};

/// The maximum time until another executor continues a lost job: the claim, a pass of the job
/// rescuer, its grace period after a start, and the delay of a busy machine.
const TAKEN_OVER: Duration = Duration::from_secs(5 + 2 + 8 + 15);

impl World {
    /// Triggers `count` jobs with hanging requests for each entry of `attempts`, which is their
    /// maximum number of attempts. Returns the jobs when all of them are running.
    pub async fn hanging(&mut self, count: usize, attempts: &[u32]) -> BTreeSet<String> {
        let mut jobs = BTreeSet::new();
        for most in attempts {
            let name = self.users.name();
            let fields = json!({ "name": name, "maxRetries": most, "timeoutSeconds": 300 });
            let one = schedule(&self.target.url("/hang"), fields);
            let created = self.users.create(0, 0, vec![one]).await;
            for _ in 0..count {
                let operation = ApiOperation::Trigger { schedule: created[0].clone() };
                if let Answer::Done(ids) = self.users.ask(operation, None).await {
                    jobs.extend(ids);
                }
            }
        }
        until("all triggered jobs are sent", async || {
            jobs.is_subset(&self.target.jobs()).then_some(())
        })
        .await;
        jobs
    }

    /// Returns the replica that runs most of the hanging requests.
    async fn holder(&self) -> usize {
        let life: String = sqlx::query_scalar(concat!(
            "SELECT a.life FROM audit AS a JOIN runs AS j ON j.id = a.job
                 JOIN schedule_versions AS v ON v.id = j.version_id
                 WHERE a.kind = 'claim' AND v.endpoint LIKE '%/hang' AND j.",
            running!(),
            " GROUP BY a.life ORDER BY count(*) DESC LIMIT 1"
        ))
        .fetch_one(&mut self.stores.store.second_connection().await)
        .await
        .expect("a replica runs them");
        life.split('.').next().and_then(|index| index.parse().ok()).expect("a process name")
    }

    /// Waits until the jobs are final.
    async fn final_within(&self, bound: Duration, jobs: &BTreeSet<String>) {
        within(bound, "the jobs end", async || {
            let mut store = self.stores.store.second_connection().await;
            let left: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM runs AS j JOIN schedule_versions AS v ON v.id = j.version_id
                 WHERE v.endpoint LIKE '%/hang'",
            )
            .fetch_one(&mut store)
            .await
            .expect("counted");
            sqlx::Connection::close(store).await.expect("closed");
            (left == 0).then_some(())
        })
        .await;
        assert!(!jobs.is_empty());
    }
}

fn of(history: &History, jobs: &BTreeSet<String>) -> Vec<Job> {
    history.jobs.iter().filter(|job| jobs.contains(&job.id)).cloned().collect()
}

/// Returns the number of jobs that have lost a worker.
fn lost(jobs: &[Job]) -> usize {
    let is_lost = |job: &&Job| {
        job.attempts.iter().any(|attempt| attempt.error.as_deref() == Some("WORKER_LOST"))
    };
    jobs.iter().filter(is_lost).count()
}

/// F40, F41: the jobs of a killed executor continue with their next attempt or fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_jobs_of_a_killed_executor_continue_or_fail() {
    let mut world = World::start(WorldConfig { schedules: 30, ..USUAL }).await;
    let jobs = world.hanging(9, &[1, 3]).await;
    let victim = world.holder().await;
    world.begin_fault();
    world.replicas[victim].kill();
    world.target.release();
    world.final_within(TAKEN_OVER, &jobs).await;
    world.restart(victim).await;
    world.end_fault();
    let history = world.holds().await;
    let jobs = of(&history, &jobs);
    assert!(lost(&jobs) > 0, "it had some of them");
    for job in &jobs {
        let hits = history.hits_of(&job.id).count();
        match (job.most, lost(std::slice::from_ref(job))) {
            (1, 1) => {
                assert_eq!((job.error.as_deref(), hits), (Some("WORKER_LOST"), 1), "{job:?}");
            }
            (_, lost) => assert_eq!((job.status.as_str(), hits), ("SUCCESS", 1 + lost), "{job:?}"),
        }
    }
}

/// F42: an outcome that arrives after the end of its claim is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_after_the_end_of_its_claim_is_dropped() {
    let mut world = World::start(WorldConfig { schedules: 30, ..USUAL }).await;
    let jobs = world.wake_an_executor_too_late().await;
    let history = world.holds().await;
    let jobs = of(&history, &jobs);
    assert!(lost(&jobs) > 0, "it had some of them");
    for job in &jobs {
        assert_eq!(job.status, "SUCCESS", "{job:?}");
        assert!(history.hits_of(&job.id).count() <= 2, "one more at most: {job:?}");
    }
}

impl World {
    /// Pauses an executor until others have finished its jobs, and then lets it commit its
    /// outcomes.
    pub async fn wake_an_executor_too_late(&mut self) -> BTreeSet<String> {
        let jobs = self.hanging(18, &[3]).await;
        let sleeper = self.holder().await;
        self.begin_fault();
        self.replicas[sleeper].hide_from_users();
        self.replicas[sleeper].pause();
        self.target.release();
        self.final_within(TAKEN_OVER, &jobs).await;
        self.users.record_all_jobs().await;
        self.replicas[sleeper].resume();
        self.replicas[sleeper].ready().await;
        self.end_fault();
        self.minutes(1.0).await;
        jobs
    }
}

/// F40: an executor that dies at any step loses and doubles nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executors_that_die_at_any_step_lose_and_double_nothing() {
    let mut world = World::start(USUAL).await;
    let points = [
        FaultPoint::AfterTake,
        FaultPoint::AfterClaim,
        FaultPoint::AfterSend,
        FaultPoint::AfterCommit,
    ];
    for (index, point) in points.into_iter().enumerate() {
        let index = index % world.replicas.len();
        world.begin_fault();
        world.replicas[index].at(point, "die");
        world.replicas[index].died().await;
        world.restart(index).await;
        world.end_fault();
    }
    world.minutes(1.0).await;
    world.holds().await;
}

/// F43: a job that kills all its workers uses up its attempts and fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_kills_all_its_executors_fails_with_its_last_attempt() {
    let mut world = World::start(WorldConfig { schedules: 12, users: 1, ..USUAL }).await;
    let jobs = world.hanging(2, &[3]).await;
    world.begin_fault();
    for attempt in 1..=3 {
        within(TAKEN_OVER, "the attempt is under way", async || {
            let all = jobs.iter().all(|job| world.target.hits_of(job).len() >= attempt);
            all.then_some(())
        })
        .await;
        world.replicas.iter_mut().for_each(super::replica::Replica::kill);
        for index in 0..world.replicas.len() {
            world.launch(index);
        }
        for replica in &mut world.replicas {
            replica.ready().await;
        }
    }
    world.final_within(TAKEN_OVER, &jobs).await;
    world.end_fault();
    let history = world.holds().await;
    for job in of(&history, &jobs) {
        let end = (job.status.as_str(), job.error.as_deref(), history.hits_of(&job.id).count());
        assert_eq!(end, ("FAILED", Some("WORKER_LOST"), 3), "{job:?}");
    }
}

/// F43: a large response does not kill a worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_responses_are_cut_and_no_replica_dies_of_them() {
    let mut world = World::start(WorldConfig { schedules: 12, users: 1, ..USUAL }).await;
    let fields = json!({ "name": world.users.name() });
    let one = schedule(&world.target.url("/size/30000000"), fields);
    let created = world.users.create(0, 0, vec![one]).await;
    for _ in 0..12 {
        world.users.ask(ApiOperation::Trigger { schedule: created[0].clone() }, None).await;
    }
    world.minutes(1.0).await;
    let history = world.holds().await;
    let large: Vec<_> = history.jobs.iter().filter(|job| job.schedule == created[0]).collect();
    assert_eq!(large.len(), 12);
    assert!(
        world.replicas.iter().all(|replica| replica.process_name().ends_with(".1")),
        "all live on"
    );
}

/// F78: a stop during a long attempt ends in time, and another replica continues the job.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_during_a_long_attempt_ends_in_time_and_another_replica_continues() {
    let settings = &[("PUNCTUAL_SHUTDOWN_GRACE_SECONDS", "4")];
    let mut world = World::start(WorldConfig { schedules: 12, settings, ..USUAL }).await;
    let jobs = world.hanging(18, &[3]).await;
    let leaver = world.holder().await;
    world.replicas[leaver].hide_from_users();
    live_for(Duration::from_millis(500)).await;
    world.begin_fault();
    world.replicas[leaver].process().terminate();
    let status = world.replicas[leaver].ended(Duration::from_secs(4 + 5)).await;
    assert_eq!(status.code(), Some(1), "exit status 1: an attempt was cut off");
    world.target.release();
    world.final_within(TAKEN_OVER, &jobs).await;
    world.restart(leaver).await;
    world.end_fault();
    let history = world.holds().await;
    let jobs = of(&history, &jobs);
    assert!(lost(&jobs) > 0, "it had some of them");
    assert!(jobs.iter().all(|job| job.status == "SUCCESS"), "{jobs:?}");
}
