//! Schedules that are changed, disabled or deleted while their jobs run.

use serde_json::{Value, json};

use super::end;
use crate::harness::app::Service;
use crate::harness::wait::until;

#[tokio::test]
async fn a_delete_ends_waiting_jobs_and_lets_running_ones_finish() {
    let service = Service::start().await;
    let schedule = service.api.create(&service.target.url("/hang"), json!({})).await;
    let path = format!("/v1/schedules/{schedule}");
    let running = service.api.trigger(&schedule).await;
    until("the first attempt is sent", async || (service.target.count() == 1).then_some(())).await;

    let change = json!({ "endpoint": service.target.url("/later/60"), "maxRetries": 3 });
    service.api.call("PATCH", &path, Some(&change)).await.expect("an answer").data();
    let waiting = service.api.trigger(&schedule).await;
    until("the second job waits for its second attempt", async || {
        let job = service.api.job(&waiting).await;
        (job["status"] == "PENDING" && job["attemptNumber"] == 1).then_some(())
    })
    .await;

    let deleted = service.api.call("DELETE", &path, None).await.expect("an answer");
    assert_eq!(deleted.status, 200, "{deleted:?}");
    assert_eq!(end(&service.api.job(&waiting).await), ("FAILED", Some("CANCELLED"), 1));
    assert_eq!(service.api.job(&running).await["status"], "RUNNING");
    assert_eq!(service.api.get(&path).await.status, 404);
    let trigger = service.api.post(&format!("{path}/trigger"), &Value::Null).await;
    assert_eq!(trigger.status, 404, "{trigger:?}");

    service.target.release();
    assert_eq!(end(&service.api.finished(&running).await), ("SUCCESS", None, 1));
    assert_eq!(service.target.hits_of(&waiting).len(), 1);
}

#[tokio::test]
async fn a_job_whose_schedule_is_deleted_has_no_further_attempt() {
    let service = Service::start().await;
    let schedule =
        service.api.create(&service.target.url("/hang"), json!({ "timeoutSeconds": 5 })).await;
    let id = service.api.trigger(&schedule).await;
    until("the first attempt is sent", async || (service.target.count() == 1).then_some(())).await;
    let path = format!("/v1/schedules/{schedule}");
    service.api.call("DELETE", &path, None).await.expect("an answer").data();
    assert_eq!(end(&service.api.finished(&id).await), ("FAILED", Some("CANCELLED"), 1));
}

#[tokio::test]
async fn a_disabled_schedule_can_be_triggered() {
    let service = Service::start().await;
    let fields = json!({ "isEnabled": false, "cronExpression": "* * * * *" });
    let schedule = service.api.create(&service.target.url("/ok"), fields).await;
    let job = service.api.trigger(&schedule).await;
    let job = service.api.finished(&job).await;
    assert_eq!((end(&job), &job["trigger"]), (("SUCCESS", None, 1), &json!("manual")));
    let record = service.api.get(&format!("/v1/schedules/{schedule}")).await;
    assert_eq!(record.data()["nextRunAtUtc"], Value::Null);
    assert_eq!(record.data()["lastJobStatus"], "SUCCESS");
}

#[tokio::test]
async fn a_trigger_leaves_the_next_run_where_it_is() {
    let service = Service::start().await;
    let schedule = service.api.create(&service.target.url("/ok"), json!({})).await;
    let path = format!("/v1/schedules/{schedule}");
    let before = service.api.get(&path).await.data()["nextRunAtUtc"].clone();
    let job = service.api.trigger(&schedule).await;
    service.api.finished(&job).await;
    assert_eq!(service.api.get(&path).await.data()["nextRunAtUtc"], before);
}

#[tokio::test]
async fn a_job_runs_wholly_by_the_version_it_was_made_with() {
    let service = Service::start().await;
    let fields = json!({ "body": "old", "headers": "{\"x-version\":\"old\"}" });
    let schedule = service.api.create(&service.target.url("/later/5/old"), fields).await;
    let id = service.api.trigger(&schedule).await;
    until("the first attempt of the job has ended", async || {
        let job = service.api.job(&id).await;
        (job["status"] == "PENDING" && job["attemptNumber"] == 1).then_some(())
    })
    .await;
    let change = json!({
        "endpoint": service.target.url("/ok/new"),
        "body": "new",
        "headers": "{\"x-version\":\"new\"}",
        "httpMethod": "PUT",
    });
    let path = format!("/v1/schedules/{schedule}");
    service.api.call("PATCH", &path, Some(&change)).await.expect("an answer").data();
    assert_eq!(service.target.hits_of(&id).len(), 1, "the change precedes the second attempt");
    let job = service.api.finished(&id).await;
    assert_eq!((end(&job), &job["body"]), (("SUCCESS", None, 2), &json!("old")));
    for hit in service.target.hits_of(&id) {
        assert_eq!((hit.path.as_str(), &hit.body[..]), ("/later/5/old", &b"old"[..]));
        assert_eq!((hit.header("x-version"), hit.method.as_str()), ("old", "POST"));
    }
}
