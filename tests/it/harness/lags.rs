//! Measures how soon the jobs of one account start beside the waiting jobs of another one.

use std::time::Duration;

use punctual::domain::Timestamp;
use serde_json::{Value, json};

use super::client::{ApiClient, schedule};
use super::recorder::Recorder;
use super::wait::within;

/// The number of waiting jobs: more than a run queue takes.
pub const WAITING: i64 = 300_000;
/// The number of measured starts of each kind.
const SAMPLES: usize = 20;
/// The maximum number of concurrent requests to one host.
pub const PER_HOST: usize = 50;

/// The query for the jobs of ticks. They are listed newest first.
const TICKS: &str = "trigger=schedule";

/// The account that the backlog must not delay, with its schedules.
pub struct Quiet {
    api: ApiClient,
    target: Recorder,
    triggered: String,
    retried: String,
}

/// The medians of the times from the earliest possible start to the request.
#[derive(Debug)]
pub struct Lags {
    tick: Duration,
    trigger: Duration,
    retry: Duration,
}

impl Lags {
    /// Asserts that no start takes more than twice its `idle` time and `machine`.
    #[track_caller]
    pub fn assert_beside(&self, idle: &Self, machine: Duration) {
        println!("idle {idle:?}, beside {WAITING} waiting jobs {self:?}");
        let kinds =
            [(idle.tick, self.tick), (idle.trigger, self.trigger), (idle.retry, self.retry)];
        for (idle, busy) in kinds {
            assert!(busy <= idle * 2 + machine, "{idle:?} idle, {busy:?} busy");
        }
    }
}

fn middle(mut lags: Vec<i64>) -> Duration {
    lags.sort_unstable();
    Duration::from_millis(u64::try_from(lags[lags.len() / 2]).expect("not early"))
}

impl Quiet {
    /// Creates the schedules of an account.
    pub async fn new(api: ApiClient) -> Self {
        let target = Recorder::start().await;
        let triggered = api.create(&target.url("/ok"), json!({})).await;
        let retried = json!({ "maxRetries": 2 });
        let retried = api.create(&target.url("/seq/500,200"), retried).await;
        let one = |index| schedule(&target.url("/ok"), json!({ "name": format!("tick {index}") }));
        let ticking = Value::Array((0..SAMPLES).map(one).collect());
        api.post("/v1/schedules/bulk", &ticking).await.data();
        Self { api, target, triggered, retried }
    }

    /// Returns the time from the instant for which a job is scheduled to its first request, in
    /// milliseconds.
    fn lag(&self, job: &Value) -> i64 {
        let due = job["scheduledRunAtUtc"].as_str().expect("an instant");
        let due: Timestamp = due.parse().expect("an instant");
        let id = job["id"].as_str().expect("an id");
        self.target.hits_of(id)[0].wall_ms - due.as_millis()
    }

    /// Returns the time from the end of a job's first attempt to the request of the second one, in
    /// milliseconds. The wait between the attempts takes up to 20 ms of it.
    fn retry_lag(&self, job: &str) -> i64 {
        let hits = self.target.hits_of(job);
        let ended = hits[0].ended.expect("answered");
        i64::try_from((hits[1].at - ended).as_millis()).expect("small")
    }

    /// Measures the starts of each kind. The service must have been restarted just before, and
    /// serves at the address of `api`.
    pub async fn lags(&mut self, api: &ApiClient) -> Lags {
        self.api = api.with_key(self.api.key());
        let ticked = self.api.jobs(TICKS).await.len() + SAMPLES;
        let (mut triggers, mut retries) = (Vec::new(), Vec::new());
        for _ in 0..SAMPLES {
            let id = self.api.trigger(&self.triggered).await;
            let job = self.api.finished(&id).await;
            triggers.push(self.lag(&job));
            let id = self.api.trigger(&self.retried).await;
            assert_eq!(self.api.finished(&id).await["attemptNumber"], 2);
            retries.push(self.retry_lag(&id));
        }
        let jobs = within(Duration::from_secs(60), "all jobs of ticks have ended", async || {
            let jobs = self.api.jobs(TICKS).await;
            let ended = |job: &Value| job["status"] == "SUCCESS";
            (jobs.len() >= ticked && jobs.iter().all(ended)).then_some(jobs)
        })
        .await;
        let ticks = jobs.iter().take(SAMPLES).map(|job| self.lag(job));
        Lags { tick: middle(ticks.collect()), trigger: middle(triggers), retry: middle(retries) }
    }
}
