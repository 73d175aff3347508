//! A backlog of hundreds of thousands of jobs against a host that hangs does not delay other
//! accounts.

use std::time::Duration;

use punctual::domain::Timestamp;
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::harness::app::Service;
use crate::harness::client::{ApiClient, schedule};
use crate::harness::recorder::Recorder;
use crate::harness::wait::within;

/// The number of waiting jobs: more than a run queue takes.
const WAITING: i64 = 300_000;
/// The number of measured starts of each kind.
const SAMPLES: usize = 20;
/// The maximum number of concurrent requests to one host.
const PER_HOST: usize = 50;
/// The time that a start may take in addition to twice its idle time. Meanwhile a sweep pushes four
/// pages of 1,000 late jobs per second. Each page keeps a debug build busy for some 50 ms, and the
/// machine has two cores for all tests. A start that waited behind the backlog would take minutes.
const MACHINE: Duration = Duration::from_millis(300);
/// The time from the preparation of the store to the first tick. By then the service runs again.
const TICKS_AFTER_SECONDS: i64 = 15;

/// The query for the jobs of ticks. They are listed newest first.
const TICKS: &str = "trigger=schedule";

/// The account that the backlog must not delay, with its schedules.
struct Quiet {
    api: ApiClient,
    target: Recorder,
    triggered: String,
    retried: String,
}

/// The medians of the times from the earliest possible start to the request.
#[derive(Debug)]
struct Lags {
    tick: Duration,
    trigger: Duration,
    retry: Duration,
}

fn middle(mut lags: Vec<i64>) -> Duration {
    lags.sort_unstable();
    Duration::from_millis(u64::try_from(lags[lags.len() / 2]).expect("not early"))
}

impl Quiet {
    async fn new(service: &Service) -> Self {
        let api = service.stranger("quiet").await;
        let target = Recorder::start().await;
        let triggered = api.create(&target.url("/ok"), json!({})).await;
        let retried = json!({ "maxRetries": 2 });
        let retried = api.create(&target.url("/seq/500,200"), retried).await;
        let one = |place| schedule(&target.url("/ok"), json!({ "name": format!("tick {place}") }));
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

    /// Measures the starts of each kind. The service must have been restarted just before.
    async fn lags(&mut self, service: &Service) -> Lags {
        self.api = service.api.with_key(self.api.key());
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

async fn execute(store: &mut SqliteConnection, sql: &'static str, value: i64) {
    sqlx::query(sql).bind(value).execute(store).await.expect("executed");
}

/// Makes the ticking schedules due soon, one after the other within ten seconds.
async fn tick_soon(store: &mut SqliteConnection) {
    let soon = "UPDATE schedule_state AS st
         SET next_tick = (unixepoch() + ?1) * 1000 + (s.rowid % 20) * 500
         FROM schedules AS s WHERE s.id = st.schedule_id AND s.name LIKE 'tick %'";
    execute(store, soon, TICKS_AFTER_SECONDS).await;
}

/// Inserts jobs of the hanging schedules that could have started minutes ago.
async fn make_jobs_wait(store: &mut SqliteConnection) {
    let jobs = "WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n + 1 < ?1)
        INSERT INTO runs (id, account_id, schedule_id, version_id, shard, status, trigger,
                          max_attempts, wake_at, created_at, updated_at)
        SELECT unhex(printf('%012x', unixepoch() * 1000 - 600000 + n) || hex(randomblob(10))),
               account_id, id, version_id, shard, 0, 1, 1,
               unixepoch() * 1000 - 600000 + n, unixepoch() * 1000, unixepoch() * 1000
        FROM n CROSS JOIN (SELECT * FROM schedules WHERE name = 'hangs')";
    execute(store, jobs, WAITING).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_that_wait_for_a_hanging_host_delay_no_other_account() {
    let mut service = Service::start().await;
    service.api.create(&service.target.url("/hang"), json!({ "name": "hangs" })).await;
    let mut quiet = Quiet::new(&service).await;
    service.restart(tick_soon).await;
    let idle = quiet.lags(&service).await;

    service
        .restart(async |store| {
            make_jobs_wait(store).await;
            tick_soon(store).await;
        })
        .await;
    within(Duration::from_secs(30), "the host is full", async || {
        (service.target.count() == PER_HOST).then_some(())
    })
    .await;
    let busy = quiet.lags(&service).await;
    assert_eq!(service.target.count(), PER_HOST, "the backlog is still there");
    println!("idle {idle:?}, beside {WAITING} waiting jobs {busy:?}");
    for (idle, busy) in
        [(idle.tick, busy.tick), (idle.trigger, busy.trigger), (idle.retry, busy.retry)]
    {
        assert!(busy <= idle * 2 + MACHINE, "{idle:?} idle, {busy:?} busy");
    }
}
