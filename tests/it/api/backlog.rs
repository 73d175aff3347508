//! The limit on the waiting jobs of a schedule.

use std::sync::Arc;

use punctual::domain::plan::{Plan, Plans};
use punctual::runtime::Random;
use punctual::scheduler::Leader;
use serde_json::{Value, json};

use super::harness::{Service, Setup, id};
use super::jobs::begin;
use super::plans::{context, fire, jobs, leader, skips};

/// The default maximum number of waiting jobs.
const MOST: u64 = 100;

async fn every_minute(service: &Service) -> String {
    id(&service.create(json!({ "cronExpression": "* * * * *" })).await)
}

/// Advances by `minutes` and fires after each minute.
async fn pass(service: &Service, leader: &mut Leader, minutes: u64) {
    for _ in 0..minutes {
        service.advance(60);
        fire(service, leader).await;
    }
}

/// Returns the waiting jobs, oldest first.
async fn waiting(service: &Service) -> Vec<String> {
    let answer = service.get("/v1/jobs?status=PENDING&pageSize=100").await;
    let jobs = answer.ok()["jobs"].as_array().expect("jobs").clone();
    let job = |job: &Value| job["id"].as_str().expect("an id").to_owned();
    jobs.iter().rev().map(job).collect()
}

#[tokio::test]
async fn ticks_whose_jobs_would_be_too_many_are_skipped_until_one_begins() {
    let service = Service::start().await;
    let (schedule, mut leader) = (every_minute(&service).await, leader(&service, Vec::new()));
    fire(&service, &mut leader).await;
    pass(&service, &mut leader, MOST + 3).await;
    assert_eq!(jobs(&service).await, MOST);
    assert_eq!(skips(&service, &schedule).await, [("backlog".into(), 3)], "one range");
    for job in waiting(&service).await.iter().take(2) {
        begin(&service, job).await;
    }
    pass(&service, &mut leader, 3).await;
    assert_eq!(jobs(&service).await, MOST + 2);
    let expected = [("backlog".into(), 1), ("backlog".into(), 3)];
    assert_eq!(skips(&service, &schedule).await, expected, "newest first");
}

#[tokio::test]
async fn a_new_leader_counts_again() {
    let service = Service::start().await;
    let (schedule, mut first) = (every_minute(&service).await, leader(&service, Vec::new()));
    fire(&service, &mut first).await;
    pass(&service, &mut first, MOST - 1).await;
    let mut second = leader(&service, Vec::new());
    pass(&service, &mut second, 2).await;
    assert_eq!(jobs(&service).await, MOST);
    assert_eq!(skips(&service, &schedule).await, [("backlog".into(), 1)]);
}

#[tokio::test]
async fn a_plan_allows_fewer_and_never_more() {
    for (of_plan, of_all, allowed) in [(2, 5, 2), (9, 5, 5)] {
        let plan = Plan {
            unstarted_jobs: Some(of_plan),
            jobs_per_month: Some(allowed + 1),
            ..Plan::unlimited("small")
        };
        let setup = Setup { plans: vec![plan.clone()], plan: "small", ..Setup::default() };
        let service = Service::with(setup).await;
        let schedule = every_minute(&service).await;
        let plans = Plans::new([plan]).with_unstarted_jobs(of_all);
        let mut leader = Leader::new(context(&service), Arc::new(plans), Random::seeded(5));
        fire(&service, &mut leader).await;
        pass(&service, &mut leader, 7).await;
        assert_eq!(jobs(&service).await, allowed);
        assert_eq!(skips(&service, &schedule).await, [("backlog".into(), 7 - allowed)]);
        begin(&service, &waiting(&service).await[0]).await;
        pass(&service, &mut leader, 1).await;
        assert_eq!(jobs(&service).await, allowed + 1, "a skip is no job of the month");
    }
}

#[tokio::test]
async fn of_ticks_that_are_caught_up_the_oldest_become_jobs() {
    let service = Service::start().await;
    let all = json!({ "cronExpression": "* * * * *", "catchUpPolicy": "all" });
    let schedule = id(&service.create(all).await);
    let plans = Plans::default().with_unstarted_jobs(4);
    let mut leader = Leader::new(context(&service), Arc::new(plans), Random::seeded(5));
    fire(&service, &mut leader).await;
    service.advance(10 * 60);
    fire(&service, &mut leader).await;
    assert_eq!(jobs(&service).await, 4);
    assert_eq!(skips(&service, &schedule).await, [("backlog".into(), 6)]);
    let made = service.get("/v1/jobs").await.ok()["jobs"].clone();
    assert_eq!(made[3]["scheduledRunAtUtc"], "2030-01-01T00:01:00.000Z", "{made}");
}
