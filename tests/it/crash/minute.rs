//! Killed around the full minute at which schedules are due.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use punctual::runtime::Random;
use serde_json::json;

use super::history::{History, instant, is_final, text};
use crate::harness::process::Installation;
use crate::harness::recorder::Recorder;
use crate::harness::wait::within;

const SCHEDULES: usize = 20;
const MINUTE_MS: u64 = 60_000;

fn wall_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(now.as_millis()).expect("before the year 584 million")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_the_full_minute_each_tick_has_one_job() {
    let dice = Random::seeded(wall_ms());
    let target = Recorder::start().await;
    let mut installation = Installation::new(&[]);
    let server = installation.serve().await;
    let api = installation.client(&server);
    let mut history = History::default();
    for _ in 0..SCHEDULES {
        let fields = json!({ "cronExpression": "* * * * *", "maxRetries": 3 });
        history.schedules.insert(api.create(&target.url("/slow/20"), fields).await);
    }
    let first =
        api.get(&format!("/v1/schedules/{}", history.schedules.first().expect("one"))).await;
    let tick = u64::try_from(instant(first.data(), "nextRunAtUtc").as_millis()).expect("positive");

    // From a little before the tick to the middle of the burst.
    let death = tick - 20 + (dice.unit() * 150.0) as u64;
    println!("dies {} ms after the minute", i128::from(death) - i128::from(tick));
    tokio::time::sleep(Duration::from_millis(death.saturating_sub(wall_ms()))).await;
    server.kill();
    let server = installation.serve().await;
    let api = installation.client(&server);
    let ticks = SCHEDULES * usize::try_from((wall_ms() - tick) / MINUTE_MS + 1).expect("few");
    let jobs = within(Duration::from_secs(20), "every tick has its job", async || {
        let jobs = api.jobs("").await;
        (jobs.len() >= ticks && jobs.iter().all(is_final)).then_some(jobs)
    })
    .await;
    let mut places: Vec<_> =
        jobs.iter().map(|job| (text(job, "scheduleId"), text(job, "scheduledRunAtUtc"))).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), jobs.len(), "TICK-1: two jobs for a tick");
    for id in &history.schedules {
        let of_it = jobs.iter().filter(|job| text(job, "scheduleId") == id);
        let ticked =
            |job: &&serde_json::Value| instant(job, "scheduledRunAtUtc").as_millis() == tick as i64;
        assert_eq!(of_it.filter(ticked).count(), 1, "TICK-2: {id}");
        let schedule = api.get(&format!("/v1/schedules/{id}")).await;
        let next = instant(schedule.data(), "nextRunAtUtc").as_millis();
        assert!(next > tick as i64, "it stands still");
    }
    let jobs = history.judge(&api, &target).await;
    for job in jobs {
        assert_eq!(text(&job, "status"), "SUCCESS", "{job}");
    }
}
