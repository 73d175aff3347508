//! The leader's cache of schedules that have fired.

use punctual::domain::audit::Author;
use punctual::domain::plan::Plan;
use punctual::scheduler::Leader;
use serde_json::json;

use super::harness::{Service, Setup, id};
use super::plans::{fire, jobs, leader, set_plan, skips};

/// Advances to the next tick and fires.
async fn tick(service: &Service, leader: &mut Leader) {
    service.advance(60);
    fire(service, leader).await;
}

/// Creates a schedule that has fired once.
async fn fired_once(service: &Service, leader: &mut Leader) -> String {
    let schedule = id(&service.create(json!({ "cronExpression": "* * * * *" })).await);
    fire(service, leader).await;
    tick(service, leader).await;
    assert_eq!(jobs(service).await, 1);
    schedule
}

#[tokio::test]
async fn a_schedule_that_has_fired_is_read_again_after_some_minutes() {
    let service = Service::start().await;
    let mut leader = leader(&service, Vec::new());
    fired_once(&service, &mut leader).await;
    // The service never changes a version in place, so the firing does not detect this.
    let yearly = sqlx::query("UPDATE schedule_versions SET cron_expression = '0 0 1 1 *'");
    yearly.execute(&mut service.second_connection().await).await.expect("done");
    for made in (2..=11).chain([11]) {
        tick(&service, &mut leader).await;
        assert_eq!(jobs(&service).await, made);
    }
}

#[tokio::test]
async fn a_change_after_a_tick_counts_at_the_next() {
    let service = Service::start().await;
    let mut leader = leader(&service, Vec::new());
    let path = format!("/v1/schedules/{}", fired_once(&service, &mut leader).await);
    let versions = async || {
        let count = sqlx::query_scalar("SELECT count(DISTINCT version_id) FROM runs");
        let count: i64 =
            count.fetch_one(&mut service.second_connection().await).await.expect("read");
        count
    };
    // The tick stays the same.
    service.patch(&path, &json!({ "timeoutSeconds": 7 })).await.ok();
    tick(&service, &mut leader).await;
    assert_eq!((jobs(&service).await, versions().await), (2, 2));
    // The policy is not part of the version. From now on, the newest earlier job counts as active.
    service.patch(&path, &json!({ "overlapPolicy": "skip" })).await.ok();
    tick(&service, &mut leader).await;
    assert_eq!(jobs(&service).await, 2);
    service.patch(&path, &json!({ "overlapPolicy": "allow" })).await.ok();
    tick(&service, &mut leader).await;
    assert_eq!(jobs(&service).await, 3);
    service.patch(&path, &json!({ "cronExpression": "*/2 * * * *" })).await.ok();
    for made in [3, 4] {
        tick(&service, &mut leader).await;
        assert_eq!(jobs(&service).await, made);
    }
    service.patch(&path, &json!({ "cronExpression": "* * * * *" })).await.ok();
    tick(&service, &mut leader).await;
    service.patch(&format!("{path}/toggle"), &json!({ "enabled": false })).await.ok();
    tick(&service, &mut leader).await;
    assert_eq!(jobs(&service).await, 5);
}

#[tokio::test]
async fn a_suspension_after_a_tick_counts_at_the_next() {
    let service = Service::start().await;
    let mut leader = leader(&service, Vec::new());
    let schedule = fired_once(&service, &mut leader).await;
    for (suspended, made) in [(true, 1), (false, 2)] {
        let set = service.accounts.set_suspended(Author::SERVICE, &service.account, suspended);
        set.await.expect("set");
        tick(&service, &mut leader).await;
        assert_eq!(jobs(&service).await, made);
        assert_eq!(skips(&service, &schedule).await, [("suspended".into(), 1)]);
    }
}

#[tokio::test]
async fn a_plan_counts_for_schedules_that_are_known_and_for_others() {
    let plan = Plan { jobs_per_month: Some(3), ..Plan::unlimited("free") };
    let setup = Setup { plans: vec![plan.clone()], plan: "unlimited", ..Setup::default() };
    let service = Service::with(setup).await;
    let mut leader = leader(&service, vec![plan]);
    let known = fired_once(&service, &mut leader).await;
    let other = id(&service.create(json!({ "cronExpression": "* * * * *" })).await);
    set_plan(&service, "free").await;
    for (made, skipped) in [(3, vec![]), (3, vec![("quota".to_owned(), 1)])] {
        tick(&service, &mut leader).await;
        assert_eq!(jobs(&service).await, made);
        for schedule in [&known, &other] {
            assert_eq!(skips(&service, schedule).await, skipped);
        }
    }
    set_plan(&service, "unlimited").await;
    tick(&service, &mut leader).await;
    assert_eq!(jobs(&service).await, 5);
}
