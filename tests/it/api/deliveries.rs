//! Deliveries of alerts: read, list, redeliver.

use std::time::Duration;

use punctual::domain::alert::delivery::DeliveryError;
use punctual::domain::alert::grouping::GroupingRules;
use punctual::domain::{ChannelId, DeliveryId};
use punctual::store::{
    AlertStore, AttemptEnd, ClaimedDelivery, DeliveryClaim, ExecutorId, TryEnd, TryOutcome,
};
use serde_json::{Value, json};

use super::harness::{START, Service, accepting, at, id, unknown_schedule};
use super::jobs::{begin, end, failure};
use crate::harness::target::Target;

const LIST: &str = "/v1/notification-deliveries";
const NOTIFIER: ExecutorId = ExecutorId(9);
/// Rules that send each alert by itself.
const RULES: GroupingRules = GroupingRules {
    per_minute: 0,
    incident_schedules: 0,
    gather: Duration::from_millis(500),
    gather_most: Duration::from_secs(5),
    calm: Duration::from_secs(120),
    stale: Duration::from_secs(3_600),
    longest: Duration::from_secs(86_400),
};

/// Creates a schedule that alerts `channel` about failures.
async fn alerting_schedule(service: &Service, channel: &str) -> String {
    let schedule = id(&service.create(json!({})).await);
    let preference = json!({ "notifyOn": "failure", "channelIds": [channel] });
    let path = format!("/v1/schedules/{schedule}/notifications");
    service.call("PUT", &path).json(&preference).send().await.ok();
    schedule
}

/// Fails a job of the schedule and plans its alert. Returns the job.
async fn fail(service: &Service, schedule: &str) -> String {
    let path = format!("/v1/schedules/{schedule}/trigger");
    let job = service.call("POST", &path).send().await.ok().as_str().expect("an id").to_owned();
    begin(service, &job).await;
    end(service, &job, 1, AttemptEnd::Failed(failure()), "no").await;
    service.store.relay(service.clock.now(), 100, &RULES).await.expect("planned");
    job
}

async fn claim(service: &Service) -> Vec<ClaimedDelivery> {
    let now = service.clock.now();
    let until = now.plus(Duration::from_secs(60));
    let claim = DeliveryClaim {
        notifier: NOTIFIER,
        now,
        until,
        limit: 100,
        per_channel: 100,
        busy: Vec::new(),
        per_account: 100,
        busy_accounts: Vec::new(),
        per_type: Vec::new(),
    };
    service.store.claim_deliveries(&claim).await.expect("claimed").taken
}

async fn complete(service: &Service, claimed: &ClaimedDelivery, outcome: TryOutcome, status: u16) {
    let now = service.clock.now();
    let made = TryEnd {
        delivery: claimed.id,
        account: claimed.account,
        channel: claimed.channel,
        revision: claimed.revision,
        attempt: claimed.attempt,
        notifier: NOTIFIER,
        started_at: now,
        completed_at: now,
        status_code: Some(status),
        response: Some("said".to_owned()),
        outcome,
    };
    let done = service.store.complete_tries(now, &[made]).await.expect("recorded");
    assert_eq!(done, [true]);
}

fn refused(retry_after_s: Option<u64>) -> TryOutcome {
    TryOutcome::Failed {
        code: DeliveryError::HttpStatus,
        message: "The webhook answered with status 500".to_owned(),
        retry_at: retry_after_s.map(|seconds| START.plus(Duration::from_secs(seconds))),
        paused_until: None,
        gone: false,
    }
}

/// Creates a delivery that has failed for good, to a verified channel. Returns its id and the id of
/// the channel.
pub async fn failed_delivery(service: &Service, target: &Target) -> (String, String) {
    let channel = service.verified(target).await;
    let schedule = alerting_schedule(service, &channel).await;
    fail(service, &schedule).await;
    let claimed = claim(service).await;
    complete(service, &claimed[0], refused(None), 500).await;
    (claimed[0].id.to_string(), channel)
}

async fn get(service: &Service, delivery: &str) -> Value {
    service.get(&format!("{LIST}/{delivery}")).await.ok().clone()
}

#[tokio::test]
async fn a_delivery_shows_each_of_its_tries() {
    let service = Service::start().await;
    let channel = service.verified(&accepting().await).await;
    let schedule = alerting_schedule(&service, &channel).await;
    service.advance(1);
    let job = fail(&service, &schedule).await;
    let listed = service.get(LIST).await.ok()["deliveries"][0].clone();
    let delivery = id(&listed);
    let mut expected = json!({
        "id": delivery, "eventId": listed["eventId"], "type": "job.failed", "channelId": channel,
        "channelType": "webhook", "channelLabel": "Hook", "scheduleId": schedule, "jobId": job,
        "status": "PENDING", "mergedInto": null, "attempts": 0, "nextAttemptAtUtc": at(1),
        "errorCode": null, "errorMessage": null, "statusCode": null, "occurredAtUtc": at(1),
        "createdAt": at(1), "completedAtUtc": null, "tries": [],
    });
    assert_eq!(listed, expected);
    assert!(delivery.starts_with("dlv_"));
    assert!(listed["eventId"].as_str().is_some_and(|id| id.starts_with("evt_")));
    assert_eq!(get(&service, &delivery).await, expected);

    let claimed = claim(&service).await;
    complete(&service, &claimed[0], refused(Some(11)), 500).await;
    let failed = json!({
        "number": 1, "startedAtUtc": at(1), "completedAtUtc": at(1), "statusCode": 500,
        "errorCode": "HTTP_STATUS", "errorMessage": "The webhook answered with status 500",
        "response": "said",
    });
    for (name, value) in [
        ("attempts", json!(1)),
        ("nextAttemptAtUtc", json!(at(11))),
        ("errorCode", json!("HTTP_STATUS")),
        ("errorMessage", failed["errorMessage"].clone()),
        ("statusCode", json!(500)),
        ("tries", json!([failed])),
    ] {
        expected[name] = value;
    }
    assert_eq!(get(&service, &delivery).await, expected);

    service.advance(10);
    let claimed = claim(&service).await;
    complete(&service, &claimed[0], TryOutcome::Delivered, 200).await;
    let delivered = get(&service, &delivery).await;
    for (name, value) in [
        ("status", json!("DELIVERED")),
        ("attempts", json!(2)),
        ("nextAttemptAtUtc", Value::Null),
        ("errorCode", Value::Null),
        ("completedAtUtc", json!(at(11))),
    ] {
        assert_eq!(delivered[name], value, "{name}");
    }
    assert_eq!(delivered["tries"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn deliveries_are_listed_newest_first_in_pages() {
    let service = Service::start().await;
    let target = accepting().await;
    let channel = service.verified(&target).await;
    let schedule = alerting_schedule(&service, &channel).await;
    for _ in 0..12 {
        service.advance(1);
        fail(&service, &schedule).await;
    }
    let first = service.get(LIST).await;
    let data = first.ok();
    let ids = |data: &Value| {
        let deliveries = data["deliveries"].as_array().expect("an array").clone();
        deliveries.iter().map(id).collect::<Vec<_>>()
    };
    for (name, value) in [("page", 1), ("pageSize", 10), ("total", 12), ("totalPages", 2)] {
        assert_eq!(data[name], value, "{name}");
    }
    assert_eq!(data["deliveries"][0]["occurredAtUtc"], at(12));
    let cursor = data["nextCursor"].as_str().expect("there is more");
    let next = service.get(&format!("{LIST}?cursor={cursor}")).await;
    let second = service.get(&format!("{LIST}?page=2&limit=10")).await;
    assert_eq!(ids(next.ok()), ids(second.ok()));
    assert_eq!((ids(next.ok()).len(), &next.ok()["nextCursor"]), (2, &Value::Null));
    for (limit, size) in [("0", 1), ("1000000000", 100), ("7", 7)] {
        let answer = service.get(&format!("{LIST}?pageSize={limit}")).await;
        assert_eq!(answer.ok()["pageSize"], size, "{limit}");
        assert_eq!(ids(answer.ok()).len(), size.min(12), "{limit}");
    }
}

#[tokio::test]
async fn deliveries_are_filtered() {
    let service = Service::start().await;
    let target = accepting().await;
    let (failed, channel) = failed_delivery(&service, &target).await;
    let schedule = get(&service, &failed).await["scheduleId"].as_str().expect("an id").to_owned();
    let other = service.verified(&target).await;
    let waiting = alerting_schedule(&service, &other).await;
    service.advance(1);
    fail(&service, &waiting).await;
    let no_channel = ChannelId::new(START, 3);
    for (query, count) in [
        (format!("channelId={channel}"), 1),
        (format!("scheduleId={schedule}"), 1),
        (format!("channelId={channel}&scheduleId={waiting}"), 0),
        ("status=FAILED".into(), 1),
        ("status=PENDING".into(), 1),
        ("status=MERGED".into(), 0),
        (format!("channelId={no_channel}"), 0),
        (format!("scheduleId={}", unknown_schedule()), 0),
        ("channelId=nonsense".into(), 0),
        ("scheduleId=nonsense".into(), 0),
        ("channelId=&status=".into(), 2),
    ] {
        let answer = service.get(&format!("{LIST}?{query}")).await;
        assert_eq!(answer.ok()["total"], count, "{query}");
    }
    for (query, name) in
        [("status=failed", "status"), ("limit=x", "limit"), ("cursor=abc", "cursor")]
    {
        let answer = service.get(&format!("{LIST}?{query}")).await;
        answer.refused(400, "VALIDATION_ERROR", "Validation error");
        let errors = answer.body["error"]["details"]["fieldErrors"].as_object().expect("an object");
        assert_eq!(errors.keys().collect::<Vec<_>>(), [name], "{query}");
    }
}

#[tokio::test]
async fn a_failed_delivery_is_sent_again() {
    let service = Service::start().await;
    let (failed, channel) = failed_delivery(&service, &accepting().await).await;
    let redeliver = async |delivery: &str| {
        service.call("POST", &format!("{LIST}/{delivery}/redeliver")).send().await
    };
    service.advance(60);
    let answer = redeliver(&failed).await;
    let again = answer.ok();
    for (name, value) in [
        ("id", json!(failed)),
        ("status", json!("PENDING")),
        ("nextAttemptAtUtc", json!(at(60))),
        ("completedAtUtc", Value::Null),
    ] {
        assert_eq!(again[name], value, "{name}");
    }
    redeliver(&failed).await.refused(409, "CONFLICT", "The delivery has not failed");
    let claimed = claim(&service).await;
    complete(&service, &claimed[0], refused(None), 500).await;
    assert_eq!(get(&service, &failed).await["tries"].as_array().map(Vec::len), Some(2));

    let path = format!("/v1/notification-channels/{channel}");
    let config = json!({ "config": { "url": "http://127.0.0.1:1/other" } });
    service.patch(&path, &config).await.ok();
    let unverified = "The channel is not verified, verify it first";
    redeliver(&failed).await.refused(409, "CONFLICT", unverified);
    service.call("DELETE", &path).send().await.ok();
    let gone = "The delivery has no channel any more";
    redeliver(&failed).await.refused(409, "CONFLICT", gone);
    assert_eq!(get(&service, &failed).await["channelLabel"], Value::Null);
}

#[tokio::test]
async fn unknown_deliveries_are_not_found_and_read_keys_change_none() {
    let service = Service::start().await;
    let unknown = DeliveryId::new(START, 3).to_string();
    for wrong in [unknown.as_str(), "nonsense", "job_01HF7YAT000000000000000007"] {
        let path = format!("{LIST}/{wrong}");
        service.get(&path).await.not_found("Notification delivery not found");
        let answer = service.call("POST", &format!("{path}/redeliver")).send().await;
        answer.not_found("Notification delivery not found");
    }
    let (failed, _) = failed_delivery(&service, &accepting().await).await;
    let read_key = service.read_key().await;
    let path = format!("{LIST}/{failed}");
    service.call("GET", &path).key(&read_key).send().await.ok();
    let answer = service.call("POST", &format!("{path}/redeliver")).key(&read_key).send().await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (403, &json!("FORBIDDEN")));
}
