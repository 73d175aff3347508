//! Repeated kills under load.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use punctual::runtime::Random;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::history::{History, is_final};
use crate::harness::client::{ApiClient, schedule};
use crate::harness::process::Installation;
use crate::harness::recorder::Recorder;
use crate::harness::wait::{live_for, within};

/// The least number of kills.
const DEATHS: usize = 6;
/// The number of kills after which there must have been load.
const MAX_DEATHS: usize = 60;
/// The number of users that trigger concurrently.
const USERS: usize = 4;
/// The timeout for all jobs to finish after the last start.
const TO_THE_END: Duration = Duration::from_secs(40);

/// The target paths of the schedules.
const PATHS: &[&str] =
    &["/ok", "/slow/40", "/seq/500,200", "/seq/0,503,200", "/slow/300", "/seq/404", "/later/1"];

/// Returns the seed for the times of the kills and prints it, so that a run can be repeated.
fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let given = std::env::var("CRASH_SEED").ok();
    let seed = given.map_or(u64::from(now.subsec_micros()), |seed| seed.parse().expect("a number"));
    println!("CRASH_SEED={seed}");
    seed
}

/// Triggers one schedule after the other until the server is dead.
async fn trigger_until_death(
    api: ApiClient,
    schedules: Arc<Vec<String>>,
    first: usize,
    history: Arc<Mutex<History>>,
) {
    for schedule in schedules.iter().cycle().skip(first) {
        let path = format!("/v1/schedules/{schedule}/trigger");
        let reply = api.call("POST", &path, Some(&Value::Null)).await;
        let mut history = history.lock().expect("not poisoned");
        match reply {
            Ok(reply) => {
                history.jobs.insert(reply.data().as_str().expect("an id").to_owned());
            }
            Err(_) => {
                history.unanswered += 1;
                return;
            }
        }
    }
}

/// Creates schedules until the server is dead.
async fn create_until_death(api: ApiClient, url: String, history: Arc<Mutex<History>>) {
    let body = schedule(&url, json!({}));
    while let Ok(reply) = api.call("POST", "/v1/schedules", Some(&body)).await {
        let id = reply.data()["id"].as_str().expect("an id").to_owned();
        history.lock().expect("not poisoned").schedules.insert(id);
        live_for(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_kills_under_load_lose_and_double_nothing() {
    let random = Random::seeded(seed());
    let target = Recorder::start().await;
    let mut installation = Installation::new(&[]);
    let history = Arc::new(Mutex::new(History::default()));
    let mut schedules = Vec::new();
    let mut deaths = 0;
    let promised = || history.lock().expect("not poisoned").jobs.len();
    while deaths < DEATHS || promised() <= DEATHS * USERS {
        assert!(deaths < MAX_DEATHS, "{} promised jobs are no load", promised());
        let server = installation.serve().await;
        let api = installation.client(&server);
        if deaths == 0 {
            for (index, path) in PATHS.iter().enumerate() {
                let fields = json!({ "maxRetries": 1 + index % 4 });
                schedules.push(api.create(&target.url(path), fields).await);
            }
        }
        let all = Arc::new(schedules.clone());
        let mut users = JoinSet::new();
        for user in 0..USERS {
            users.spawn(trigger_until_death(api.clone(), all.clone(), user, history.clone()));
        }
        users.spawn(create_until_death(api, target.url("/ok"), history.clone()));
        let life = 0.05 + random.unit() * 0.9;
        live_for(Duration::from_secs_f64(life)).await;
        server.kill();
        users.join_all().await;
        deaths += 1;
    }
    let server = installation.serve().await;
    let api = installation.client(&server);
    let mut history = std::mem::take(&mut *history.lock().expect("not poisoned"));
    history.check_finals(&api).await;
    within(TO_THE_END, "all jobs finish", async || {
        api.jobs("").await.iter().all(is_final).then_some(())
    })
    .await;
    let jobs = history.judge(&api, &target).await;
    println!("{} jobs, {} promised, {} hits", jobs.len(), history.jobs.len(), target.count());
}

/// F75: a batch is created completely or not at all, whenever the server dies.
#[tokio::test]
async fn a_kill_during_a_bulk_create_leaves_all_or_nothing() {
    let random = Random::seeded(seed());
    let mut installation = Installation::new(&[]);
    let one = |index: usize| schedule("http://example.com/", json!({ "name": format!("{index}") }));
    let batch = Value::Array((0..1_000).map(one).collect());
    let mut least = 0;
    for _ in 0..3 {
        let server = installation.serve().await;
        let api = installation.client(&server);
        let body = batch.clone();
        let call =
            tokio::spawn(async move { api.call("POST", "/v1/schedules/bulk", Some(&body)).await });
        live_for(Duration::from_millis(20).mul_f64(1.0 + random.unit() * 12.0)).await;
        server.kill();
        if call.await.expect("no panic").is_ok_and(|reply| reply.status == 201) {
            least += 1_000;
        }
        let server = installation.serve().await;
        let reply = installation.client(&server).get("/v1/schedules?pageSize=1").await;
        let total = reply.body["pagination"]["total"].as_u64().expect("a number");
        assert!(total == least || total == least + 1_000, "{total} schedules, {least} promised");
        least = total;
    }
}
