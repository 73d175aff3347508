//! The audit log: every changing route writes exactly one entry. Nothing else writes entries.

use std::collections::BTreeSet;

use punctual::domain::key::ApiKey;
use serde_json::{Value, json};

use super::deliveries::failed_delivery;
use super::harness::{Answer, Service, accepting, at, id, schedule_with, unknown_schedule};

/// `POST` routes that change nothing.
const QUESTIONS: [&str; 1] = ["POST /v1/schedules/preview"];

/// Routes that accounts do not call. Their own tests check their entries.
const OF_OTHERS: [&str; 1] = ["POST /unsubscribe/{account}/{channel}/{token}"];

/// A changing call: its route, path and body, and the expected entry.
struct Changing {
    route: &'static str,
    path: String,
    body: Value,
    action: &'static str,
    /// `None` if the call creates the object.
    object: Option<String>,
}

impl Changing {
    fn of(route: &'static str, object: Option<&str>, body: Value, action: &'static str) -> Self {
        let path = route.split_once(' ').expect("method and path").1;
        let path = path.replace("{id}", object.unwrap_or_default());
        Self { route, path, body, action, object: object.map(str::to_owned) }
    }
}

/// Returns one call for each changing route, in an order in which all of them succeed.
fn every_change(schedule: &str, finished: &str, waiting: &str) -> Vec<Changing> {
    let (sch, nothing) = (Some(schedule), json!({}));
    let new = schedule_with(json!({}));
    let change = Changing::of;
    vec![
        change("POST /v1/schedules", None, new.clone(), "schedule.created"),
        change("POST /v1/schedules/bulk", None, json!([new]), "schedule.created"),
        change("PUT /v1/schedules/{id}", sch, json!({ "name": "a" }), "schedule.updated"),
        change("PATCH /v1/schedules/{id}", sch, json!({ "name": "b" }), "schedule.updated"),
        change(
            "PATCH /v1/schedules/{id}/toggle",
            sch,
            json!({ "enabled": false }),
            "schedule.disabled",
        ),
        change(
            "PATCH /v1/schedules/{id}/toggle",
            sch,
            json!({ "enabled": true }),
            "schedule.enabled",
        ),
        change("POST /v1/schedules/{id}/trigger", sch, nothing.clone(), "schedule.triggered"),
        change("POST /v1/jobs/{id}/cancel", Some(waiting), nothing.clone(), "job.cancelled"),
        change("POST /v1/jobs/{id}/retry", Some(finished), nothing.clone(), "job.retried"),
        change("DELETE /v1/schedules/{id}", sch, nothing, "schedule.deleted"),
    ]
}

/// Returns the calls for the notification routes. The channel must be verified, and the delivery to
/// it must have failed.
fn every_change_of_notifications(schedule: &str, channel: &str, delivery: &str) -> Vec<Changing> {
    let (channel, nothing) = (Some(channel), json!({}));
    let config = json!({ "webhookUrl": "http://127.0.0.1:1/services/a" });
    let new = json!({ "type": "slack", "label": "Chat", "config": config });
    let (set, change) = (json!({ "notifyOn": "none" }), Changing::of);
    let preference = "PUT /v1/schedules/{id}/notifications";
    let redeliver = "POST /v1/notification-deliveries/{id}/redeliver";
    let of_channel = |route, body, action| Changing::of(route, channel, body, action);
    vec![
        change("POST /v1/notification-channels", None, new, "channel.created"),
        of_channel(
            "PUT /v1/notification-channels/{id}",
            json!({ "label": "a" }),
            "channel.updated",
        ),
        of_channel(
            "PATCH /v1/notification-channels/{id}",
            json!({ "label": "b" }),
            "channel.updated",
        ),
        of_channel(
            "POST /v1/notification-channels/{id}/verify",
            nothing.clone(),
            "channel.verified",
        ),
        of_channel(
            "POST /v1/notification-channels/{id}/rotate-secret",
            nothing.clone(),
            "channel.secret_rotated",
        ),
        change(preference, Some(schedule), set, "schedule.notifications_set"),
        change(redeliver, Some(delivery), nothing.clone(), "alert.redelivered"),
        of_channel("DELETE /v1/notification-channels/{id}", nothing, "channel.deleted"),
    ]
}

async fn entries(service: &Service, query: &str) -> Vec<Value> {
    let answer = service.get(&format!("/v1/audit-log?pageSize=1000{query}")).await;
    answer.ok()["entries"].as_array().expect("an array").clone()
}

async fn send(service: &Service, change: &Changing) -> Answer {
    let method = change.route.split_once(' ').expect("method and path").0;
    service.call(method, &change.path).from(9).json(&change.body).send().await
}

#[tokio::test]
async fn every_changing_route_writes_exactly_one_entry() {
    let service = Service::start().await;
    let (schedule, finished) = service.job().await;
    let waiting = format!("/v1/schedules/{schedule}/trigger");
    let waiting = service.call("POST", &waiting).send().await.ok().as_str().expect("id").to_owned();
    service.call("POST", &format!("/v1/jobs/{finished}/cancel")).send().await.ok();
    let target = accepting().await;
    let (delivery, channel) = failed_delivery(&service, &target).await;
    let mut changes = every_change_of_notifications(&schedule, &channel, &delivery);
    changes.extend(every_change(&schedule, &finished, &waiting));

    let document = punctual::api::document("").to_json().expect("written");
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let mut routes = BTreeSet::new();
    for (path, item) in document["paths"].as_object().expect("an object") {
        let methods = item.as_object().expect("an object").keys();
        routes.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    let others = [&QUESTIONS[..], &OF_OTHERS].concat();
    routes.retain(|route| !route.starts_with("GET ") && !others.contains(&route.as_str()));
    let tried: BTreeSet<_> = changes.iter().map(|change| change.route.to_owned()).collect();
    assert_eq!(tried, routes, "every changing route has its calls here");

    let key = service.key.parse::<ApiKey>().expect("a key").id().to_string();
    for change in changes {
        service.advance(1);
        let before = entries(&service, "").await.len();
        let answer = send(&service, &change).await;
        assert!(answer.status < 300, "{}: {}", change.route, answer.text);
        let after = entries(&service, "").await;
        assert_eq!(after.len(), before + 1, "{}", change.route);
        let made = answer.body["data"]["id"].as_str();
        let made = made.or(answer.body["data"]["schedules"][0]["id"].as_str());
        let object = change.object.as_deref().or(made).expect("an object");
        let newest = &after[0];
        let recorded = [&newest["actor"], &newest["action"], &newest["object"], &newest["origin"]];
        assert_eq!(recorded, [&*key, change.action, object, "192.0.2.9"], "{}", change.route);
        assert_eq!(newest["at"], json!(service.clock.now().to_string()));
        assert_eq!(newest.as_object().expect("an object").len(), 6);
    }
}

/// An older binary lists entries with names that only a newer release knows.
#[tokio::test]
async fn names_that_only_a_newer_release_knows_are_listed() {
    let service = Service::start().await;
    let (schedule, job) = service.job().await;
    let path = format!("/v1/jobs/{job}");
    service.call("POST", &format!("{path}/cancel")).send().await.ok();
    let mut store = service.second_connection().await;
    for later in [
        "INSERT INTO audit_log SELECT randomblob(16), account_id, actor, 'thing.done', object, origin
         FROM audit_log WHERE action = 'job.cancelled'",
        "INSERT INTO skips (account_id, schedule_id, first_tick, last_tick, count, reason)
         SELECT account_id, id, 0, 0, 1, 'weather' FROM schedules",
        "UPDATE jobs SET error_code = 'WEATHER'",
    ] {
        sqlx::query(later).execute(&mut store).await.expect("written");
    }
    let listed = entries(&service, "").await;
    assert!(listed.iter().any(|entry| entry["action"] == "thing.done"), "{listed:?}");
    let skips = service.get(&format!("/v1/schedules/{schedule}/skips")).await;
    assert_eq!(skips.ok()["skips"][0]["reason"], "weather");
    assert_eq!(service.get(&path).await.ok()["errorCode"], "INTERNAL");
    assert_eq!(service.get("/v1/jobs").await.ok()["jobs"][0]["errorCode"], "INTERNAL");
}

#[tokio::test]
async fn a_call_that_changes_nothing_writes_nothing() {
    let service = Service::start().await;
    let (schedule, job) = service.job().await;
    let none = unknown_schedule();
    let before = entries(&service, "").await;
    let of = |rest: &str| format!("/v1/schedules/{schedule}{rest}");
    for (method, path, body) in [
        ("POST", "/v1/schedules".to_owned(), json!({ "name": 1 })),
        ("POST", "/v1/schedules/bulk".to_owned(), json!([])),
        ("POST", "/v1/schedules/preview".to_owned(), schedule_with(json!({}))),
        ("PATCH", of(""), json!({})),
        ("PATCH", of(""), json!({ "name": "Nightly" })),
        ("PUT", of(""), json!({ "cronExpression": "never" })),
        ("PATCH", of("/toggle"), json!({ "enabled": true })),
        ("DELETE", format!("/v1/schedules/{none}"), json!({})),
        ("POST", format!("/v1/schedules/{none}/trigger"), json!({})),
        ("POST", format!("/v1/jobs/{job}/retry"), json!({})),
        ("GET", of(""), json!({})),
    ] {
        service.call(method, &path).json(&body).send().await;
    }
    service.advance(1);
    let read_key = service.read_key().await;
    let refused = service.call("DELETE", &of("")).key(&read_key).send().await;
    assert_eq!(refused.status, 403);
    let after = entries(&service, "").await;
    assert_eq!(after[0]["action"], "key.created", "the key that can only read");
    assert_eq!(after[1..], before[..]);
}

#[tokio::test]
async fn entries_are_filtered_and_paged() {
    let service = Service::start().await;
    let schedule = id(&service.create(json!({})).await);
    for _ in 0..4 {
        service.advance(60);
        service.call("POST", &format!("/v1/schedules/{schedule}/trigger")).send().await.ok();
    }
    let key = service.key.parse::<ApiKey>().expect("a key").id();
    for (query, count) in [
        ("&action=schedule.triggered".to_owned(), 4),
        ("&action=job.cancelled".to_owned(), 0),
        (format!("&actor={key}"), 5),
        ("&actor=service".to_owned(), 2),
        (format!("&actor={key}&action=schedule.created"), 1),
        (format!("&from={}&to={}", at(60), at(120)), 2),
    ] {
        assert_eq!(entries(&service, &query).await.len(), count, "{query}");
    }
    let all = entries(&service, "").await;
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = service.get(&format!("/v1/audit-log?pageSize=3{cursor}")).await.ok().clone();
        paged.extend(page["entries"].as_array().expect("an array").clone());
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(paged, all);
    let names = punctual::domain::audit::Action::ALL.iter().map(|action| action.as_str());
    let message = format!("Must be one of {}", names.collect::<Vec<_>>().join(", "));
    let answer = service.get("/v1/audit-log?action=x&from=y").await;
    let from = answer.body["error"]["details"]["fieldErrors"]["from"].clone();
    answer.invalid(json!({ "action": [message], "from": from }));
    let other_key = service.other_account_key().await;
    let theirs = service.call("GET", "/v1/audit-log").key(&other_key).send().await;
    assert_eq!(theirs.ok()["entries"].as_array().map(Vec::len), Some(2), "{}", theirs.text);
    // S19: no query can find entries of the other account.
    for query in [
        format!("actor={key}"),
        format!("actor={key}&action=schedule.triggered"),
        format!("actor=service&from={}", at(1)),
        "action=schedule.created".to_owned(),
        format!("from={}&to={}", at(60), at(120)),
    ] {
        let path = format!("/v1/audit-log?{query}");
        let theirs = service.call("GET", &path).key(&other_key).send().await;
        let objects = theirs.ok()["entries"].as_array().expect("an array").iter();
        let objects: Vec<_> = objects.map(|entry| entry["object"].clone()).collect();
        assert!(objects.iter().all(|object| *object != json!(schedule)), "{query}: {objects:?}");
        assert!(query.starts_with("actor=service") || objects.is_empty(), "{query}: {objects:?}");
    }
}
