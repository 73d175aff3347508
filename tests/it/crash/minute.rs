//! Kills around the full minute at which schedules are due.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use punctual::runtime::Random;
use serde_json::{Value, json};

use super::history::{History, instant, is_final, text};
use crate::harness::client::schedule;
use crate::harness::process::Installation;
use crate::harness::recorder::Recorder;
use crate::harness::wait::{live_for, within};

const SCHEDULES: usize = 20;

/// Returns the time of the wall clock since 1970.
fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_kill_at_the_full_minute_each_tick_has_one_job() {
    let random = Random::seeded(wall().subsec_nanos().into());
    let target = Recorder::start().await;
    let mut installation = Installation::new(&[]);
    let server = installation.serve().await;
    let api = installation.client(&server);
    let mut history = History::default();
    let fields = json!({ "cronExpression": "* * * * *", "maxRetries": 3 });
    let batch = vec![schedule(&target.url("/slow/20"), fields); SCHEDULES];
    // One call, so that all schedules have the same next tick.
    let created = api.post("/v1/schedules/bulk", &batch.into()).await;
    let created = created.data()["schedules"].as_array().expect("schedules");
    history.schedules.extend(created.iter().map(|schedule| text(schedule, "id").to_owned()));
    let first =
        api.get(&format!("/v1/schedules/{}", history.schedules.first().expect("one"))).await;
    let tick = instant(first.data(), "nextRunAtUtc");
    let since_1970 = Duration::from_millis(tick.as_millis().unsigned_abs());

    // The time of the kill is between shortly before the tick and the middle of the burst.
    let life = since_1970.saturating_sub(wall() + Duration::from_millis(20));
    let extra = Duration::from_millis(150).mul_f64(random.unit());
    println!("dies {extra:?} after 20 ms before the minute");
    live_for(life + extra).await;
    server.kill();
    let server = installation.serve().await;
    let api = installation.client(&server);
    let ticked = |job: &&Value| instant(job, "scheduledRunAtUtc") == tick;
    let jobs = within(Duration::from_secs(40), "every schedule has its job", async || {
        let jobs = api.jobs("").await;
        let of_tick = jobs.iter().filter(ticked).count();
        (of_tick >= SCHEDULES && jobs.iter().all(is_final)).then_some(jobs)
    })
    .await;
    let mut ticks: Vec<_> =
        jobs.iter().map(|job| (text(job, "scheduleId"), text(job, "scheduledRunAtUtc"))).collect();
    ticks.sort_unstable();
    ticks.dedup();
    assert_eq!(ticks.len(), jobs.len(), "TICK-1: two jobs for a tick");
    for id in &history.schedules {
        let of_it = jobs.iter().filter(|job| text(job, "scheduleId") == id);
        assert_eq!(of_it.filter(ticked).count(), 1, "TICK-2: {id}");
        let path = format!("/v1/schedules/{id}");
        let schedule = api.get(&path).await;
        assert!(instant(schedule.data(), "nextRunAtUtc") > tick, "it stands still");
        // The next minute adds no jobs while the history is judged.
        let disable = json!({ "isEnabled": false });
        api.call("PATCH", &path, Some(&disable)).await.expect("an answer").data();
    }
    within(Duration::from_secs(40), "the jobs of further ticks finish", async || {
        api.jobs("").await.iter().all(is_final).then_some(())
    })
    .await;
    let jobs = history.judge(&api, &target).await;
    for job in jobs {
        assert_eq!(text(&job, "status"), "SUCCESS", "{job}");
    }
}
