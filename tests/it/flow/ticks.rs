//! Ticks of schedules, on time and missed.

use std::time::Duration;

use punctual::domain::Timestamp;
use serde_json::{Value, json};

use super::end;
use crate::harness::app::Service;
use crate::harness::wait::{until, within};

/// A minute, and the delay that a busy machine may add.
const A_MINUTE: Duration = Duration::from_secs(70);
/// The duration of an `outage` in minutes.
const MINUTES_AWAY: i64 = 6;

/// Makes all schedules miss the ticks of the last minutes, as after an outage.
async fn outage(service: &mut Service) {
    service
        .restart(async |store| {
            sqlx::query(
                "UPDATE schedule_state SET next_tick = (next_tick / 60000 - ?1) * 60000
                 WHERE next_tick IS NOT NULL",
            )
            .bind(MINUTES_AWAY)
            .execute(store)
            .await
            .expect("set back");
        })
        .await;
}

fn instant(record: &Value, name: &str) -> Timestamp {
    record[name].as_str().expect("an instant").parse().expect("an instant")
}

/// Waits until a schedule has at least `least` jobs. Returns them, oldest first.
async fn jobs_of(service: &Service, schedule: &str, least: usize) -> Vec<Value> {
    let mut jobs = until(&format!("the schedule has {least} jobs"), async || {
        let jobs = service.api.jobs(&format!("scheduleId={schedule}")).await;
        (jobs.len() >= least).then_some(jobs)
    })
    .await;
    jobs.reverse();
    jobs
}

async fn skips_of(service: &Service, schedule: &str) -> Vec<(String, u64)> {
    let reply = service.api.get(&format!("/v1/schedules/{schedule}/skips")).await;
    let tell = |skip: &Value| {
        (
            skip["reason"].as_str().expect("a reason").to_owned(),
            skip["count"].as_u64().expect("a count"),
        )
    };
    reply.data()["skips"].as_array().expect("skips").iter().map(tell).collect()
}

/// Returns the number of ticks of `* * * * *` between two ticks, both included.
fn minutes(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from((to.as_millis() - from.as_millis()) / 60_000 + 1).expect("forward")
}

#[tokio::test]
async fn a_schedule_runs_at_the_next_minute() {
    let service = Service::start().await;
    let fields = json!({ "cronExpression": "* * * * *", "body": "due" });
    let schedule = service.api.create(&service.target.url("/ok"), fields).await;
    let path = format!("/v1/schedules/{schedule}");
    let record = service.api.get(&path).await.data().clone();
    let tick = instant(&record, "nextRunAtUtc");
    assert!(tick > instant(&record, "createdAt"));

    let hit = within(A_MINUTE, "the request of the tick arrives", async || {
        service.target.hits().first().cloned()
    })
    .await;
    assert!(hit.wall_ms >= tick.as_millis(), "TICK-3: early by {}", tick.as_millis() - hit.wall_ms);
    let job = service.api.finished(&hit.job).await;
    assert_eq!((end(&job), &job["trigger"]), (("SUCCESS", None, 1), &json!("schedule")));
    assert_eq!((&job["response"], instant(&job, "scheduledRunAtUtc")), (&json!("hello"), tick));
    assert_eq!(&hit.body[..], b"due");

    let record = service.api.get(&path).await.data().clone();
    assert_eq!(instant(&record, "nextRunAtUtc").as_millis(), tick.as_millis() + 60_000);
    assert_eq!(record["lastJobStatus"], "SUCCESS");
    // On time, with the delay that a busy machine may add: long before the next tick.
    assert!(hit.wall_ms - tick.as_millis() < 10_000, "late by {}", hit.wall_ms - tick.as_millis());
}

#[tokio::test]
async fn missed_ticks_run_according_to_the_policy() {
    let mut service = Service::start().await;
    let mut schedules = Vec::new();
    for policy in ["last", "all", "skip"] {
        let fields = json!({ "cronExpression": "* * * * *", "catchUpPolicy": policy });
        schedules.push((policy, service.api.create(&service.target.url("/ok"), fields).await));
    }
    outage(&mut service).await;
    for (policy, schedule) in &schedules {
        let jobs = jobs_of(&service, schedule, 1).await;
        let late = |job: &&Value| {
            instant(job, "createdAt").since(instant(job, "scheduledRunAtUtc"))
                > Duration::from_secs(60)
        };
        let (caught_up, on_time): (Vec<_>, Vec<_>) = jobs.iter().partition(late);
        assert!(!on_time.is_empty(), "{policy}: ticks up to a minute late always run");
        let skipped: u64 = skips_of(&service, schedule).await.iter().map(|(_, count)| count).sum();
        let missed = caught_up.len() as u64 + skipped;
        assert!((5..=7).contains(&missed), "{policy}: {missed}");
        match *policy {
            "last" => assert_eq!(caught_up.len(), 1, "{jobs:?}"),
            "all" => assert_eq!(skipped, 0),
            _ => assert_eq!(caught_up.len(), 0, "{jobs:?}"),
        }
        assert!(caught_up.iter().all(|job| job["trigger"] == "catch_up"));
        let ticks = minutes(
            instant(&jobs[0], "scheduledRunAtUtc"),
            instant(&jobs[jobs.len() - 1], "scheduledRunAtUtc"),
        );
        assert_eq!(ticks, jobs.len() as u64, "{policy}: no gap, none twice");
        for job in &jobs {
            let job = service.api.finished(job["id"].as_str().expect("an id")).await;
            assert_eq!(end(&job), ("SUCCESS", None, 1));
        }
    }
}

#[tokio::test]
async fn skip_leaves_ticks_out_while_a_job_is_active() {
    let mut service = Service::start().await;
    let fields = json!({
        "cronExpression": "* * * * *", "catchUpPolicy": "all", "overlapPolicy": "skip",
    });
    let schedule = service.api.create(&service.target.url("/hang"), fields).await;
    outage(&mut service).await;
    let jobs = jobs_of(&service, &schedule, 1).await;
    until("the attempt of the first job is sent", async || {
        (service.target.count() > 0).then_some(())
    })
    .await;
    let skips = skips_of(&service, &schedule).await;
    assert_eq!((jobs.len(), skips.len(), skips[0].0.as_str()), (1, 1, "overlap"));
    assert!((5..=7).contains(&skips[0].1), "{skips:?}");
    // A triggered job is neither blocked by the job of the tick, nor does it block one.
    let manual = service.api.trigger(&schedule).await;
    until("the attempts of both jobs are sent", async || {
        (service.target.count() == 2).then_some(())
    })
    .await;
    service.target.release();
    for job in [jobs[0]["id"].as_str().expect("an id"), &manual] {
        assert_eq!(end(&service.api.finished(job).await), ("SUCCESS", None, 1));
    }
}

#[tokio::test]
async fn queue_one_holds_one_job_back() {
    let mut service = Service::start().await;
    let fields = json!({
        "cronExpression": "* * * * *", "catchUpPolicy": "all", "overlapPolicy": "queue_one",
    });
    let schedule = service.api.create(&service.target.url("/hang"), fields).await;
    outage(&mut service).await;
    let jobs = jobs_of(&service, &schedule, 2).await;
    until("the attempt of the first job is sent", async || {
        (service.target.count() > 0).then_some(())
    })
    .await;
    let skips = skips_of(&service, &schedule).await;
    assert_eq!((jobs.len(), skips.len(), skips[0].0.as_str()), (2, 1, "overlap"));
    let ids: Vec<_> = jobs.iter().map(|job| job["id"].as_str().expect("an id")).collect();
    assert_eq!(service.api.job(ids[1]).await["status"], "PENDING");
    assert_eq!(service.target.hits().len(), 1);
    service.target.release();
    for id in &ids {
        assert_eq!(end(&service.api.finished(id).await), ("SUCCESS", None, 1));
    }
    let [first, second] = [ids[0], ids[1]].map(|id| service.target.hits_of(id).swap_remove(0));
    assert!(second.at >= first.ended.expect("answered"), "one after the other");
}
