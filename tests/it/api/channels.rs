//! Notification channels: create, change, verify, delete.

use punctual::domain::ChannelId;
use punctual::domain::audit::Author;
use punctual::domain::plan::{ChannelType, Plan};
use serde_json::{Value, json};
use sqlx::{Connection, Executor};

use super::harness::{Answer, START, Service, Setup, accepting, at, faulty, id};
use super::idempotency::{LOST, post, same};

const CHANNELS: &str = "/v1/notification-channels";
const SLACK: &str = "https://hooks.slack.com/services/T000/B000/secret";

fn slack() -> Value {
    json!({ "type": "slack", "label": "Chat", "config": { "webhookUrl": SLACK } })
}

fn webhook(url: &str) -> Value {
    json!({ "type": "webhook", "label": "Hook", "config": { "url": url } })
}

async fn create(service: &Service, new: &Value) -> Value {
    let answer = service.post(CHANNELS, new).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.body["data"].clone()
}

async fn get(service: &Service, channel: &str) -> Value {
    service.get(&format!("{CHANNELS}/{channel}")).await.ok().clone()
}

async fn verify(service: &Service, channel: &str) -> Answer {
    service.call("POST", &format!("{CHANNELS}/{channel}/verify")).send().await
}

async fn rotate(service: &Service, channel: &str, body: &Value) -> Answer {
    service.post(&format!("{CHANNELS}/{channel}/rotate-secret"), body).await
}

#[tokio::test]
async fn a_channel_is_created_unverified_and_shows_no_configuration() {
    let service = Service::with(Setup { base_path: "/api", ..Setup::default() }).await;
    let created = service.post(&format!("/api{CHANNELS}"), &slack()).await;
    assert_eq!(created.status, 201, "{}", created.text);
    let channel = id(&created.body["data"]);
    let expected = json!({
        "id": channel, "type": "slack", "label": "Chat", "verified": false, "createdAt": at(0),
        "updatedAt": at(0),
    });
    assert_eq!(created.body, json!({ "data": expected, "success": true }));
    let location = format!("/api{CHANNELS}/{channel}");
    assert_eq!(created.header("location"), location);
    assert!(channel.starts_with("ch_"));
    assert_eq!(service.get(&location).await.ok(), &expected);
    assert_eq!(service.get(&format!("/api{CHANNELS}")).await.ok(), &json!([expected]));
}

#[tokio::test]
async fn a_generated_secret_is_shown_once() {
    let service = Service::start().await;
    let created = create(&service, &webhook("https://example.com/hook")).await;
    let secret = created["secret"].as_str().expect("a secret").to_owned();
    assert!(secret.starts_with("whsec_"), "{secret}");
    let channel = id(&created);
    for path in [CHANNELS.to_owned(), format!("{CHANNELS}/{channel}")] {
        assert!(!service.get(&path).await.text.contains("secret"), "{path}");
    }
    let change = json!({ "config": { "url": "https://example.com/other" } });
    let changed = service.patch(&format!("{CHANNELS}/{channel}"), &change).await;
    assert!(changed.ok().get("secret").is_none(), "the channel keeps its secret");
    let mut given = webhook("https://example.com/hook");
    given["config"]["secret"] = json!(secret);
    assert!(create(&service, &given).await.get("secret").is_none(), "the caller has it");
}

#[tokio::test]
async fn wrong_fields_are_named() {
    let service = Service::start().await;
    let types = "Must be one of email, slack, discord, telegram, webhook";
    let length = "Must be between 1 and 100 characters";
    let with = |name: &str, value: Value| {
        let mut new = slack();
        new[name] = value;
        new
    };
    for (given, errors) in [
        (json!({}), json!({ "type": ["Required"], "label": ["Required"], "config": ["Required"] })),
        (
            json!({ "type": 1, "label": true, "config": [] }),
            json!({ "type": ["Must be a string"], "label": ["Must be a string"],
                    "config": ["Must be an object"] }),
        ),
        (with("type", json!("fax")), json!({ "type": [types] })),
        (with("type", Value::Null), json!({ "type": ["Required"] })),
        (with("label", json!("")), json!({ "label": [length] })),
        (with("label", json!("é".repeat(101))), json!({ "label": [length] })),
        (with("label", json!("a\0")), json!({ "label": ["Must not contain NUL characters"] })),
        (with("config", json!({})), json!({ "config.webhookUrl": ["Required"] })),
    ] {
        service.post(CHANNELS, &given).await.invalid(errors);
    }
    for (given, field) in [
        (with("config", json!({ "webhookUrl": "https://example.com/x" })), "config.webhookUrl"),
        (with("config", json!({ "webhookUrl": 1 })), "config.webhookUrl"),
        (webhook("nonsense"), "config.url"),
        (webhook("http://10.0.0.1/"), "config.url"),
    ] {
        let refused = service.post(CHANNELS, &given).await;
        refused.refused(400, "VALIDATION_ERROR", "Validation error");
        let errors = &refused.body["error"]["details"]["fieldErrors"];
        let names: Vec<_> = errors.as_object().expect("an object").keys().collect();
        assert_eq!(names, [field], "{given}");
    }
    assert_eq!(service.get(CHANNELS).await.ok(), &json!([]));
    create(&service, &with("label", json!("é".repeat(100)))).await;
}

#[tokio::test]
async fn bodies_that_are_no_objects_are_refused_and_unknown_fields_ignored() {
    let service = Service::start().await;
    for (body, message) in [
        ("", "Invalid JSON body"),
        ("{", "Invalid JSON body"),
        ("[]", "Must be a JSON object"),
        ("[\"slack\", \"a\", {}]", "Must be a JSON object"),
        ("null", "Must be a JSON object"),
    ] {
        let refused = service.call("POST", CHANNELS).body(body).send().await;
        refused.refused(400, "VALIDATION_ERROR", "Validation error");
        let details = json!({ "fieldErrors": {}, "formErrors": [message] });
        assert_eq!(refused.body["error"]["details"], details, "{body}");
    }
    let text = service.call("POST", CHANNELS).header("content-type", "text/plain").body("{}");
    assert_eq!(text.send().await.status, 415);
    let mut new = slack();
    for (name, value) in [
        ("id", json!("ch_mine")),
        ("verified", json!(true)),
        ("createdAt", json!("2000-01-01T00:00:00.000Z")),
        ("more", json!({ "deep": [1, { "er": null }] })),
    ] {
        new[name] = value;
    }
    let created = create(&service, &new).await;
    assert_eq!((&created["verified"], &created["createdAt"]), (&json!(false), &json!(at(0))));
    assert_ne!(created["id"], "ch_mine");
}

#[tokio::test]
async fn channels_are_listed_newest_first_and_filtered() {
    let service = Service::start().await;
    let hook = service.verified(&accepting().await).await;
    service.advance(1);
    let chat = id(&create(&service, &slack()).await);
    for (query, expected) in [
        ("", vec![&chat, &hook]),
        ("?type=slack", vec![&chat]),
        ("?type=email", vec![]),
        ("?verified=true", vec![&hook]),
        ("?verified=false&type=slack", vec![&chat]),
        ("?verified=&type=", vec![&chat, &hook]),
    ] {
        let answer = service.get(&format!("{CHANNELS}{query}")).await;
        let listed: Vec<_> = answer.ok().as_array().expect("an array").iter().map(id).collect();
        assert_eq!(listed.iter().collect::<Vec<_>>(), expected, "{query}");
    }
    let wrong = service.get(&format!("{CHANNELS}?type=fax&verified=1")).await;
    wrong.invalid(json!({
        "type": ["Must be one of email, slack, discord, telegram, webhook"],
        "verified": ["Must be true or false"],
    }));
}

#[tokio::test]
async fn a_change_of_the_configuration_has_to_be_verified_and_a_new_label_not() {
    let service = Service::start().await;
    let target = accepting().await;
    let channel = service.verified(&target).await;
    let path = format!("{CHANNELS}/{channel}");
    service.advance(5);
    let renamed = service.patch(&path, &json!({ "label": "Ops" })).await;
    for (name, value) in
        [("label", json!("Ops")), ("verified", json!(true)), ("updatedAt", json!(at(5)))]
    {
        assert_eq!(renamed.ok()[name], value, "{name}");
    }
    service.advance(5);
    let same =
        json!({ "type": "webhook", "label": "Ops", "config": { "url": target.url("/hook") } });
    let unchanged = service.call("PUT", &path).json(&same).send().await;
    assert_eq!(unchanged.ok(), renamed.ok(), "nothing changes");
    let moved = json!({ "config": { "url": target.url("/moved") } });
    let moved = service.call("PUT", &path).json(&moved).send().await;
    assert_eq!((&moved.ok()["verified"], &moved.ok()["label"]), (&json!(false), &json!("Ops")));
    assert_eq!(&get(&service, &channel).await, moved.ok());

    for (given, errors) in [
        (json!({ "type": "slack" }), json!({ "type": ["Cannot be changed"] })),
        (json!({ "type": 1 }), json!({ "type": ["Must be a string"] })),
        (json!({ "label": null }), json!({ "label": ["Required"] })),
        (
            json!({ "label": "", "config": null }),
            json!({ "label": ["Must be between 1 and 100 characters"], "config": ["Required"] }),
        ),
        (json!({ "config": {} }), json!({ "config.url": ["Required"] })),
    ] {
        service.patch(&path, &given).await.invalid(errors);
    }
    let verified = json!({ "verified": true, "id": "ch_mine", "type": null });
    assert_eq!(service.patch(&path, &verified).await.ok(), moved.ok());
}

#[tokio::test]
async fn a_deleted_channel_is_gone() {
    let service = Service::start().await;
    let channel = id(&create(&service, &slack()).await);
    let path = format!("{CHANNELS}/{channel}");
    let deleted = service.call("DELETE", &path).send().await;
    assert_eq!(deleted.body, json!({ "data": { "id": channel }, "success": true }));
    let not_found = "Notification channel not found";
    for missing in [channel.as_str(), &ChannelId::new(START, 3).to_string(), "nonsense"] {
        let path = format!("{CHANNELS}/{missing}");
        for method in ["GET", "PUT", "PATCH", "DELETE"] {
            let call = service.call(method, &path).json(&json!({ "label": "x" }));
            call.send().await.not_found(not_found);
        }
        verify(&service, missing).await.not_found(not_found);
        rotate(&service, missing, &json!({})).await.not_found(not_found);
    }
}

#[tokio::test]
async fn a_test_notification_that_arrives_verifies_a_channel() {
    let service = Service::start().await;
    let target = accepting().await;
    let channel = service.webhook(&target).await;
    service.advance(3);
    let answer = verify(&service, &channel).await;
    let expected = json!({
        "id": channel, "type": "webhook", "label": "Hook", "verified": true, "createdAt": at(0),
        "updatedAt": at(3),
    });
    assert_eq!(answer.body, json!({ "data": expected, "success": true }));
    assert_eq!(get(&service, &channel).await, expected);
    let requests = target.requests();
    assert_eq!(requests.len(), 1, "one try");
    let sent = requests[0].text();
    let (_, body) = sent.split_once("\r\n\r\n").expect("a body");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!((&body["type"], &body["version"]), (&json!("channel.test"), &json!("1")));
    assert_eq!(requests[0].header("webhook-id"), [body["id"].as_str().expect("an id")]);
    verify(&service, &channel).await.ok();
}

#[tokio::test]
async fn a_test_notification_that_fails_changes_nothing() {
    let service = Service::start().await;
    let (works, fails) = (accepting().await, faulty().await);
    let channel = service.webhook(&fails).await;
    let failed = verify(&service, &channel).await;
    let code = "CHANNEL_VERIFICATION_FAILED";
    assert_eq!((failed.status, &failed.body["error"]["code"]), (422, &json!(code)));
    let details = json!({ "reason": "HTTP_STATUS", "providerStatus": 500 });
    assert_eq!(failed.body["error"]["details"], details);
    assert!(failed.body["error"]["message"].as_str().is_some_and(|said| !said.is_empty()));
    assert_eq!(get(&service, &channel).await["verified"], false);

    let closed = create(&service, &webhook("http://127.0.0.1:1/")).await;
    let failed = verify(&service, &id(&closed)).await;
    assert_eq!(failed.status, 422, "{}", failed.text);
    assert_eq!(failed.body["error"]["details"], json!({ "reason": "CONNECT" }));
    let mail = json!({ "type": "email", "label": "Mail", "config": { "to": "ann@example.com" } });
    let failed = verify(&service, &id(&create(&service, &mail).await)).await;
    assert_eq!(failed.body["error"]["details"], json!({ "reason": "MAIL_NOT_CONFIGURED" }));

    let once = service.verified(&works).await;
    drop(works);
    assert_eq!(verify(&service, &once).await.status, 422);
    assert_eq!(get(&service, &once).await["verified"], true, "unchanged");
}

#[tokio::test]
async fn a_channel_is_sent_five_tests_an_hour() {
    let service = Service::start().await;
    let (works, fails) = (accepting().await, faulty().await);
    let (channel, other) = (service.webhook(&works).await, service.webhook(&fails).await);
    for _ in 0..5 {
        verify(&service, &channel).await.ok();
        assert_eq!(verify(&service, &other).await.status, 422, "failures count too");
    }
    service.advance(60);
    for channel in [&channel, &other] {
        let refused = verify(&service, channel).await;
        refused.refused(429, "RATE_LIMIT_EXCEEDED", "Rate limit exceeded");
        let details = json!({ "limit": 5, "window": "hour", "resetAt": at(3_600) });
        assert_eq!(refused.body["error"]["details"], details);
        assert_eq!(refused.header("retry-after"), "3540");
    }
    service.advance(3_540);
    verify(&service, &channel).await.ok();
}

#[tokio::test]
async fn an_account_sends_at_most_twenty_tests_a_minute_over_all_channels() {
    let service = Service::start().await;
    let works = accepting().await;
    for _ in 0..4 {
        let channel = service.webhook(&works).await;
        for _ in 0..5 {
            verify(&service, &channel).await.ok();
        }
        let path = format!("{CHANNELS}/{channel}");
        service.call("DELETE", &path).send().await.ok();
    }
    let channel = service.webhook(&works).await;
    let refused = verify(&service, &channel).await;
    refused.refused(429, "RATE_LIMIT_EXCEEDED", "Rate limit exceeded");
    let details = json!({ "limit": 20, "window": "minute", "resetAt": at(60) });
    assert_eq!(refused.body["error"]["details"], details);
    assert_eq!(works.requests().len(), 20);
    let other_key = service.other_account_key().await;
    let hook = webhook(&works.url("/hook"));
    let hook = service.call("POST", CHANNELS).key(&other_key).json(&hook).send().await;
    let path = format!("{CHANNELS}/{}/verify", id(&hook.body["data"]));
    service.call("POST", &path).key(&other_key).send().await.ok();
    service.advance(60);
    verify(&service, &channel).await.ok();
}

#[tokio::test]
async fn two_secrets_sign_until_the_overlap_ends() {
    let service = Service::start().await;
    let target = accepting().await;
    let channel = service.verified(&target).await;
    let rotated = rotate(&service, &channel, &json!({ "overlapSeconds": 3_600 })).await;
    let secret = rotated.ok()["secret"].as_str().expect("a secret").to_owned();
    assert!(secret.starts_with("whsec_"));
    assert_eq!(rotated.ok()["verified"], true, "it leads to the same endpoint");
    let signatures = async || {
        verify(&service, &channel).await.ok();
        let last = target.requests().pop().expect("a request");
        last.header("webhook-signature")[0].split(' ').count()
    };
    assert_eq!(signatures().await, 2);
    service.advance(3_600);
    assert_eq!(signatures().await, 1);
    // A missing body and an overlap out of range are accepted.
    let path = format!("{CHANNELS}/{channel}/rotate-secret");
    service.call("POST", &path).send().await.ok();
    for overlap in [json!(-1), json!(1e12), Value::Null] {
        rotate(&service, &channel, &json!({ "overlapSeconds": overlap })).await.ok();
    }
    let given = rotate(&service, &channel, &json!({ "secret": secret })).await;
    assert!(given.ok().get("secret").is_none(), "the caller has it");
    for (wrong, field) in [
        (json!({ "secret": "short" }), "secret"),
        (json!({ "secret": 1 }), "secret"),
        (json!({ "overlapSeconds": "1" }), "overlapSeconds"),
    ] {
        let refused = rotate(&service, &channel, &wrong).await;
        refused.refused(400, "VALIDATION_ERROR", "Validation error");
        let errors = &refused.body["error"]["details"]["fieldErrors"];
        let names: Vec<_> = errors.as_object().expect("an object").keys().collect();
        assert_eq!(names, [field]);
    }
    let chat = id(&create(&service, &slack()).await);
    let message = "The channel has no signing secret, only webhook channels have one";
    rotate(&service, &chat, &json!({})).await.refused(409, "CONFLICT", message);
}

#[tokio::test]
async fn read_keys_and_suspended_accounts_change_nothing() {
    let service = Service::start().await;
    let channel = service.verified(&accepting().await).await;
    let path = format!("{CHANNELS}/{channel}");
    let calls = [
        ("POST", CHANNELS.to_owned()),
        ("PUT", path.clone()),
        ("PATCH", path.clone()),
        ("DELETE", path.clone()),
        ("POST", format!("{path}/verify")),
        ("POST", format!("{path}/rotate-secret")),
    ];
    let before = get(&service, &channel).await;
    let read_key = service.read_key().await;
    let send = async |key: &str| {
        for (method, path) in &calls {
            let answer = service.call(method, path).key(key).json(&slack()).send().await;
            let code = &answer.body["error"]["code"];
            assert_eq!((answer.status, code), (403, &json!("FORBIDDEN")), "{method} {path}");
        }
    };
    send(&read_key).await;
    service.call("GET", &path).key(&read_key).send().await.ok();
    let set = service.accounts.set_suspended(Author::SERVICE, &service.account, true);
    set.await.expect("set");
    send(&service.key).await;
    assert_eq!(get(&service, &channel).await, before);
}

#[tokio::test]
async fn plans_limit_the_number_and_the_types_of_channels() {
    let plan = Plan {
        channels: Some(1),
        channel_types: Some(vec![ChannelType::Slack]),
        ..Plan::unlimited("free")
    };
    let setup = Setup { plans: vec![plan], plan: "free", ..Setup::default() };
    let service = Service::with(setup).await;
    let refused = service.post(CHANNELS, &webhook("https://example.com/hook")).await;
    let message = "The plan free does not allow channels of type webhook";
    refused.refused(403, "PLAN_LIMIT_EXCEEDED", message);
    let details = |limit: &str, max: u64, current: Value| json!({ "limit": limit, "max": max, "current": current, "requested": 1, "plan": "free" });
    assert_eq!(refused.body["error"]["details"], details("channelTypes", 0, Value::Null));
    let channel = id(&create(&service, &slack()).await);
    let refused = service.post(CHANNELS, &slack()).await;
    let message = "The plan free allows 1 notification channels";
    refused.refused(403, "PLAN_LIMIT_EXCEEDED", message);
    assert_eq!(refused.body["error"]["details"], details("channels", 1, json!(1)));
    service.call("DELETE", &format!("{CHANNELS}/{channel}")).send().await.ok();
    create(&service, &slack()).await;
}

/// A repeated call gets the same response, even if the process died before it stored it. Only a
/// lost secret is answered with 409.
#[tokio::test]
async fn answers_are_repeated_except_for_a_lost_secret() {
    let service = Service::start().await;
    let target = accepting().await;
    let channel = service.webhook(&target).await;
    let calls = [
        (CHANNELS.to_owned(), slack()),
        (format!("{CHANNELS}/{channel}/verify"), json!({})),
        (CHANNELS.to_owned(), webhook("https://example.com/hook")),
        (format!("{CHANNELS}/{channel}/rotate-secret"), json!({})),
    ];
    let mut answers = Vec::new();
    for (number, (path, body)) in calls.iter().enumerate() {
        let key = format!("k{number}");
        let first = post(&service, path, &key, body).await;
        assert!(first.status < 300, "{path}: {}", first.text);
        same(&first, &post(&service, path, &key, body).await);
        answers.push(first);
    }
    assert_eq!(target.requests().len(), 1, "one test");
    let mut store = service.second_connection().await;
    store.execute("UPDATE idempotency_keys SET answer = NULL").await.expect("forgotten");
    store.close().await.expect("closed");
    service.advance(60);
    for (number, (path, body)) in calls.iter().enumerate() {
        let again = post(&service, path, &format!("k{number}"), body).await;
        match number {
            0 | 1 => same(&answers[number], &again),
            _ => drop(again.refused(409, "CONFLICT", LOST)),
        }
    }
    let count = service.get(CHANNELS).await.ok().as_array().map(Vec::len);
    assert_eq!(count, Some(3), "nothing is done again");
}
