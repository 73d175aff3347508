//! What leaders know of schedules that have fired.

use serde_json::json;

use super::harness::{Service, id};
use super::plans::{fire, jobs, leader};

/// A schedule that has fired once.
async fn fired_once(service: &Service, leader: &mut punctual::scheduler::Leader) -> String {
    let schedule = id(&service.create(json!({ "cronExpression": "*/5 * * * *" })).await);
    fire(service, leader).await;
    service.advance(300);
    fire(service, leader).await;
    assert_eq!(jobs(service).await, 1);
    schedule
}

#[tokio::test]
async fn a_schedule_that_has_fired_is_read_again_after_some_minutes() {
    let service = Service::start().await;
    let mut leader = leader(&service, Vec::new());
    fired_once(&service, &mut leader).await;
    // What nobody else does: it is not found when the schedule is fired.
    let yearly = "UPDATE schedule_versions SET cron_expression = '0 0 1 1 *'";
    sqlx::query(yearly).execute(&mut service.beside().await).await.expect("done");
    for made in [2, 3, 3] {
        service.advance(300);
        fire(&service, &mut leader).await;
        assert_eq!(jobs(&service).await, made);
    }
}

#[tokio::test]
async fn what_is_changed_after_a_tick_counts_at_the_next() {
    let service = Service::start().await;
    let mut leader = leader(&service, Vec::new());
    let path = format!("/v1/schedules/{}", fired_once(&service, &mut leader).await);
    // The tick stays the same.
    service.patch(&path, &json!({ "timeoutSeconds": 7 })).await.ok();
    service.advance(300);
    fire(&service, &mut leader).await;
    let versions = sqlx::query_scalar("SELECT count(DISTINCT version_id) FROM jobs");
    let versions: i64 = versions.fetch_one(&mut service.beside().await).await.expect("read");
    assert_eq!((jobs(&service).await, versions), (2, 2));

    service.patch(&path, &json!({ "cronExpression": "*/10 * * * *" })).await.ok();
    for made in [2, 3] {
        service.advance(300);
        fire(&service, &mut leader).await;
        assert_eq!(jobs(&service).await, made);
    }

    // The policy is no part of the version: from now on the newest of those before is active.
    service.patch(&path, &json!({ "overlapPolicy": "skip" })).await.ok();
    service.advance(600);
    fire(&service, &mut leader).await;
    assert_eq!(jobs(&service).await, 3);

    let toggle = format!("{path}/toggle");
    service.patch(&path, &json!({ "overlapPolicy": "allow" })).await.ok();
    service.advance(600);
    fire(&service, &mut leader).await;
    assert_eq!(jobs(&service).await, 4);
    service.patch(&toggle, &json!({ "enabled": false })).await.ok();
    service.advance(600);
    fire(&service, &mut leader).await;
    assert_eq!(jobs(&service).await, 4);
}
