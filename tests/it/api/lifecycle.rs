//! Schedules: toggle, trigger, delete, preview.

use punctual::queue::{Capacity, Queue};
use serde_json::{Value, json};

use super::harness::{START, Service, at, id, unknown_schedule};

#[tokio::test]
async fn a_schedule_is_switched_off_and_on_without_catching_up() {
    let service = Service::start().await;
    let created = service.create(json!({ "cronExpression": "* * * * *" })).await;
    let path = format!("/v1/schedules/{}/toggle", id(&created));
    let off = service.patch(&path, &json!({ "enabled": false })).await;
    let (enabled, next) = (&off.ok()["isEnabled"], &off.ok()["nextRunAtUtc"]);
    assert_eq!((enabled, next), (&json!(false), &Value::Null));
    service.advance(3_600);
    let on = service.patch(&path, &json!({ "enabled": true })).await;
    let (enabled, next) = (&on.ok()["isEnabled"], &on.ok()["nextRunAtUtc"]);
    assert_eq!((enabled, next), (&json!(true), &json!(at(3_630))));
    let again = service.patch(&path, &json!({ "enabled": true })).await;
    assert_eq!(again.ok(), on.ok());
    let skips = service.get(&format!("/v1/schedules/{}/skips", id(&created))).await;
    assert_eq!(skips.ok()["skips"], json!([]), "nothing was due when it was switched off");
}

#[tokio::test]
async fn a_switch_is_true_or_false() {
    let service = Service::start().await;
    let path = format!("/v1/schedules/{}/toggle", id(&service.create(json!({})).await));
    for wrong in [json!({}), json!({ "enabled": null }), json!({ "isEnabled": false })] {
        service.patch(&path, &wrong).await.invalid(json!({ "enabled": ["Required"] }));
    }
    for wrong in [json!("true"), json!(1)] {
        let answer = service.patch(&path, &json!({ "enabled": wrong })).await;
        answer.invalid(json!({ "enabled": ["Must be a boolean"] }));
    }
}

#[tokio::test]
async fn a_trigger_makes_a_job_that_can_be_read_at_once() {
    let service = Service::start().await;
    let created = service.create(json!({ "isEnabled": false, "overlapPolicy": "skip" })).await;
    let path = format!("/v1/schedules/{}/trigger", id(&created));
    service.advance(5);
    for _ in 0..2 {
        let answer = service.call("POST", &path).send().await;
        let job = answer.ok().as_str().expect("an id").to_owned();
        let message = "Schedule triggered successfully";
        assert_eq!(answer.body, json!({ "data": job, "success": true, "message": message }));
        let read = service.get(&format!("/v1/jobs/{job}")).await;
        let read = read.ok();
        assert_eq!((&read["status"], &read["trigger"]), (&json!("PENDING"), &json!("manual")));
        assert_eq!(
            (&read["scheduledRunAtUtc"], &read["scheduleId"]),
            (&json!(at(5)), &created["id"])
        );
    }
    let after = service.get(&format!("/v1/schedules/{}", id(&created))).await;
    assert_eq!(after.ok(), &created);
    let room = Capacity { total: 9, per_account: 9, per_host: 9, ..Capacity::default() };
    let (tickets, _) = service.queue.take(service.clock.now(), &room).await.expect("taken");
    assert_eq!(tickets.len(), 2, "both are queued");
    let gone = format!("/v1/schedules/{}/trigger", unknown_schedule());
    service.call("POST", &gone).send().await.not_found("Schedule not found");
}

#[tokio::test]
async fn a_deleted_schedule_is_gone_and_its_waiting_jobs_end() {
    let service = Service::start().await;
    let (schedule, job) = service.job().await;
    let path = format!("/v1/schedules/{schedule}");
    let deleted = service.call("DELETE", &path).send().await;
    assert_eq!(deleted.body, json!({ "data": { "id": schedule }, "success": true }));
    for (method, rest) in
        [("GET", ""), ("DELETE", ""), ("POST", "/trigger"), ("GET", "/skips"), ("PATCH", "")]
    {
        let answer = service.call(method, &format!("{path}{rest}")).json(&json!({})).send().await;
        answer.not_found("Schedule not found");
    }
    assert_eq!(service.get("/v1/schedules").await.body["data"], json!([]));
    let read = service.get(&format!("/v1/jobs/{job}")).await;
    let read = read.ok();
    assert_eq!((&read["status"], &read["errorCode"]), (&json!("FAILED"), &json!("CANCELLED")));
    assert_eq!(read["completedAtUtc"], START.to_string());
}

#[tokio::test]
async fn a_preview_explains_an_expression() {
    let service = Service::start().await;
    let asked = json!({
        "cronExpression": "30 2 * * *", "timezone": "Europe/Berlin", "count": 2,
        "from": "2030-03-30T12:00:00+01:00",
    });
    let answer = service.post("/v1/schedules/preview", &asked).await;
    let data = answer.ok();
    assert!(data["description"].as_str().is_some_and(|text| text.contains("02:30")), "{data}");
    let runs = data["runs"].as_array().expect("an array");
    assert_eq!(runs.len(), 2);
    assert_eq!(runs[0]["utc"], "2030-03-31T01:00:00.000Z", "the gap's end");
    assert_eq!(runs[0]["local"], "2030-03-31T03:00:00+02:00");
    assert!(runs[0]["note"].is_string());
    assert_eq!(
        (&runs[1]["utc"], &runs[1]["note"]),
        (&json!("2030-04-01T00:30:00.000Z"), &Value::Null)
    );
    assert!(data["warnings"].is_array());

    let default = json!({ "cronExpression": "* * * * *", "timezone": "UTC" });
    let answer = service.post("/v1/schedules/preview", &default).await;
    assert_eq!(answer.ok()["runs"].as_array().map(Vec::len), Some(10));
    assert_eq!(answer.ok()["runs"][0]["utc"], at(30), "from now");
    assert_eq!(service.get("/v1/schedules").await.body["pagination"]["total"], 0);
}

#[tokio::test]
async fn a_preview_is_checked_like_a_schedule() {
    let service = Service::start().await;
    let post = async |body: Value| service.post("/v1/schedules/preview", &body).await;
    let required = json!({ "cronExpression": ["Required"], "timezone": ["Required"] });
    post(json!({})).await.invalid(required);
    post(json!({ "cronExpression": "x", "timezone": "y", "count": "z", "from": "now" }))
        .await
        .invalid(json!({
            "cronExpression": ["Invalid cron expression"],
            "timezone": ["Invalid timezone"],
            "count": ["Must be an integer"],
            "from": ["Must be an ISO 8601 timestamp such as 2030-01-31T09:00:00Z"],
        }));
    for (count, runs) in [(0, 1), (1_000, 100)] {
        let body = json!({ "cronExpression": "* * * * *", "timezone": "UTC", "count": count });
        assert_eq!(post(body).await.ok()["runs"].as_array().map(Vec::len), Some(runs));
    }
}

#[tokio::test]
async fn the_account_shows_its_plan_and_usage() {
    let service = Service::start().await;
    service.job().await;
    let answer = service.get("/v1/account").await;
    let expected = json!({
        "id": service.account.id,
        "name": "first",
        "plan": "unlimited",
        "suspendedAt": null,
        "limits": {
            "schedules": null,
            "apiKeys": 10,
            "shortestIntervalSeconds": null,
            "jobsPerMonth": null,
            "concurrentAttempts": null,
            "channels": null,
            "channelTypes": null,
            "notifyOn": null,
            "bodyBytes": null,
            "historyDays": null,
            "requestsPerMinute": 100_000,
            "requestsPerHour": 1_000_000,
        },
        "usage": { "schedules": 1, "apiKeys": 1, "channels": 0, "jobsThisMonth": 1, "quotaExhaustedAt": null },
    });
    assert_eq!(answer.body, json!({ "data": expected, "success": true }));
}
