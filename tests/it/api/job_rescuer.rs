//! The job rescuer closes the attempts of a lost executor. An attempt that cannot be closed blocks
//! no other.

use punctual::domain::retry::RetryPolicy;
use punctual::runtime::{Random, Worker};
use punctual::scheduler::JobRescuer;
use serde_json::{Value, json};

use super::harness::{Service, id};
use super::jobs::begin;
use super::plans::context;

/// The number of jobs that the lost executor was running.
const JOBS: usize = 7;

/// Creates running jobs whose executor has died. They have no attempt left.
async fn lost(service: &Service) -> Vec<String> {
    let schedule = id(&service.create(json!({ "maxRetries": 0 })).await);
    let mut jobs = Vec::new();
    for _ in 0..JOBS {
        let path = format!("/v1/schedules/{schedule}/trigger");
        let made = service.call("POST", &path).send().await;
        let job = made.ok().as_str().expect("an id").to_owned();
        begin(service, &job).await;
        jobs.push(job);
    }
    service.advance(61);
    jobs
}

/// Rescues jobs as at the start of a process that is the only one on its store: the first pass
/// closes all attempts.
async fn rescue_jobs(service: &Service) {
    let random = Random::seeded(3);
    let mut rescuer = JobRescuer::new(context(service), RetryPolicy::default(), random, true);
    rescuer.run_once(service.clock.now()).await.expect("rescued");
}

async fn execute(service: &Service, sql: String) {
    let statement = sqlx::query(sqlx::AssertSqlSafe(sql));
    statement.execute(&mut service.second_connection().await).await.expect("executed");
}

/// Rejects the stored outcome of a job if `condition` holds.
async fn refuse(service: &Service, job: &str, condition: &str) {
    let id: punctual::domain::JobId = job.parse().expect("an id");
    let bytes: String = id.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let sql = format!(
        "CREATE TRIGGER refuse BEFORE INSERT ON jobs WHEN NEW.id = x'{bytes}' AND {condition}
         BEGIN SELECT RAISE(ABORT, 'refused'); END"
    );
    execute(service, sql).await;
}

async fn read(service: &Service, job: &str) -> Value {
    service.get(&format!("/v1/jobs/{job}")).await.ok().clone()
}

#[tokio::test]
async fn a_result_that_cannot_be_stored_fails_its_job_alone() {
    let service = Service::start().await;
    let jobs = lost(&service).await;
    refuse(&service, &jobs[3], "NEW.error_code = 'WORKER_LOST'").await;
    rescue_jobs(&service).await;
    for (index, job) in jobs.iter().enumerate() {
        let expected = if index == 3 { "INTERNAL" } else { "WORKER_LOST" };
        assert_eq!(read(&service, job).await["errorCode"], expected, "{index}");
    }
}

#[tokio::test]
async fn a_job_that_cannot_be_failed_is_left_and_the_start_continues() {
    let service = Service::start().await;
    let jobs = lost(&service).await;
    refuse(&service, &jobs[3], "true").await;
    rescue_jobs(&service).await;
    for (index, job) in jobs.iter().enumerate() {
        let expected = if index == 3 { "RUNNING" } else { "FAILED" };
        assert_eq!(read(&service, job).await["status"], expected, "{index}");
    }
    execute(&service, "DROP TRIGGER refuse".into()).await;
    rescue_jobs(&service).await;
    assert_eq!(read(&service, &jobs[3]).await["errorCode"], "WORKER_LOST");
}
