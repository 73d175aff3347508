//! Notification preferences of schedules.

use punctual::domain::ChannelId;
use punctual::domain::plan::{ChannelType, NotifyOn, Plan};
use serde_json::{Value, json};

use super::harness::{Answer, START, Service, Setup, accepting, id, unknown_schedule};
use super::plans::set_plan;

fn path(schedule: &str) -> String {
    format!("/v1/schedules/{schedule}/notifications")
}

async fn set(service: &Service, schedule: &str, preference: Value) -> Answer {
    service.call("PUT", &path(schedule)).json(&preference).send().await
}

async fn get(service: &Service, schedule: &str) -> Value {
    service.get(&path(schedule)).await.ok().clone()
}

async fn schedule(service: &Service) -> String {
    id(&service.create(json!({})).await)
}

#[tokio::test]
async fn a_schedule_without_a_preference_raises_no_alert() {
    let service = Service::start().await;
    let schedule = schedule(&service).await;
    let answer = service.get(&path(&schedule)).await;
    let expected = json!({
        "scheduleId": schedule, "notifyOn": "none", "channels": [], "warning": null,
        "failureThreshold": 1, "notifyOnRecovery": false, "repeatEveryMinutes": null,
    });
    assert_eq!(answer.body, json!({ "data": expected, "success": true }));
}

#[tokio::test]
async fn a_preference_replaces_the_one_before_as_a_whole() {
    let service = Service::start().await;
    let (schedule, target) = (schedule(&service).await, accepting().await);
    let (one, two) = (service.verified(&target).await, service.verified(&target).await);
    let attached = |channel: &str| json!({ "channelId": channel, "type": "webhook", "label": "Hook", "verified": true });
    let given = json!({
        "notifyOn": "both", "channelIds": [two, one, two], "failureThreshold": 3,
        "notifyOnRecovery": true, "repeatEveryMinutes": 60, "scheduleId": "mine", "warning": 1,
    });
    let answer = set(&service, &schedule, given).await;
    let expected = json!({
        "scheduleId": schedule, "notifyOn": "both", "channels": [attached(&two), attached(&one)],
        "warning": null, "failureThreshold": 3, "notifyOnRecovery": true, "repeatEveryMinutes": 60,
    });
    assert_eq!((answer.ok(), &get(&service, &schedule).await), (&expected, &expected));

    let fewer = json!({ "notifyOn": "failure", "channelIds": [one], "failureThreshold": null });
    let expected = json!({
        "scheduleId": schedule, "notifyOn": "failure", "channels": [attached(&one)],
        "warning": null, "failureThreshold": 1, "notifyOnRecovery": false,
        "repeatEveryMinutes": null,
    });
    assert_eq!(set(&service, &schedule, fewer).await.ok(), &expected);
    set(&service, &schedule, json!({ "notifyOn": "none" })).await.ok();
    assert_eq!(get(&service, &schedule).await["channels"], json!([]));
    // A schedule without alerts keeps its attached channels.
    let silent = json!({ "notifyOn": "none", "channelIds": [two] });
    set(&service, &schedule, silent).await.ok();
    let kept = get(&service, &schedule).await;
    assert_eq!((&kept["channels"], &kept["warning"]), (&json!([attached(&two)]), &Value::Null));
}

#[tokio::test]
async fn integers_are_clamped_and_read_back_clamped() {
    let service = Service::start().await;
    let (schedule, channel) =
        (schedule(&service).await, service.verified(&accepting().await).await);
    for (given, threshold, repeat) in
        [(json!(0), 1, 1), (json!(-7), 1, 1), (json!(1e9), 1_000, 10_080), (json!(5.0), 5, 5)]
    {
        let preference = json!({
            "notifyOn": "failure", "channelIds": [channel], "failureThreshold": given,
            "repeatEveryMinutes": given,
        });
        set(&service, &schedule, preference).await.ok();
        let read = get(&service, &schedule).await;
        let clamped = (&read["failureThreshold"], &read["repeatEveryMinutes"]);
        assert_eq!(clamped, (&json!(threshold), &json!(repeat)), "{given}");
    }
}

#[tokio::test]
async fn wrong_fields_are_named_and_nothing_changes() {
    let service = Service::start().await;
    let (schedule, target) = (schedule(&service).await, accepting().await);
    let (verified, new) = (service.verified(&target).await, service.webhook(&target).await);
    let kept = json!({ "notifyOn": "success", "channelIds": [verified] });
    set(&service, &schedule, kept).await.ok();
    let before = get(&service, &schedule).await;
    let unknown = ChannelId::new(START, 3).to_string();
    let eleven: Vec<String> =
        (0..11).map(|number| ChannelId::new(START, number).to_string()).collect();
    let (none, unverified) = ("Channel not found", "Channel must be verified");
    let missing = "Must name at least one channel";
    let one_of = "Must be one of none, failure, success, both";
    for (given, errors) in [
        (json!({}), json!({ "notifyOn": ["Required"] })),
        (json!({ "notifyOn": null }), json!({ "notifyOn": ["Required"] })),
        (json!({ "notifyOn": "Failure" }), json!({ "notifyOn": [one_of] })),
        (json!({ "notifyOn": 1 }), json!({ "notifyOn": ["Must be a string"] })),
        (json!({ "notifyOn": "failure" }), json!({ "channelIds": [missing] })),
        (json!({ "notifyOn": "both", "channelIds": [] }), json!({ "channelIds": [missing] })),
        (
            json!({ "notifyOn": "both", "channelIds": "ch_1" }),
            json!({ "channelIds": ["Must be an array of strings"] }),
        ),
        (
            json!({ "notifyOn": "both", "channelIds": [1] }),
            json!({ "channelIds": ["Must be an array of strings"] }),
        ),
        (
            json!({ "notifyOn": "both", "channelIds": eleven }),
            json!({ "channelIds": ["Must name at most 10 channels"] }),
        ),
        (json!({ "notifyOn": "both", "channelIds": ["x"] }), json!({ "channelIds": [none] })),
        (
            json!({ "notifyOn": "none", "channelIds": [verified, unknown] }),
            json!({ "channelIds": [none] }),
        ),
        (
            json!({ "notifyOn": "failure", "channelIds": [verified, new] }),
            json!({ "channelIds": [unverified] }),
        ),
        (
            json!({ "notifyOn": "none", "failureThreshold": "5", "notifyOnRecovery": 1,
                    "repeatEveryMinutes": 2.5 }),
            json!({ "failureThreshold": ["Must be an integer"],
                    "notifyOnRecovery": ["Must be a boolean"],
                    "repeatEveryMinutes": ["Must be an integer"] }),
        ),
    ] {
        set(&service, &schedule, given).await.invalid(errors);
    }
    let malformed = service.call("PUT", &path(&schedule)).body("{").send().await;
    malformed.refused(400, "VALIDATION_ERROR", "Validation error");
    let form = &malformed.body["error"]["details"]["formErrors"];
    assert_eq!(form, &json!(["Invalid JSON body"]));
    let text = service.call("PUT", &path(&schedule)).header("content-type", "text/plain");
    assert_eq!(text.body("{}").send().await.status, 415);
    assert_eq!(get(&service, &schedule).await, before);
}

#[tokio::test]
async fn channels_and_schedules_of_others_do_not_exist() {
    let service = Service::start().await;
    let (own, channel) = (schedule(&service).await, service.verified(&accepting().await).await);
    let other_key = service.other_account_key().await;
    let given = json!({ "notifyOn": "failure", "channelIds": [channel] });
    for missing in [own.as_str(), &unknown_schedule(), "nonsense"] {
        for method in ["GET", "PUT"] {
            let call = service.call(method, &path(missing)).key(&other_key).json(&given);
            call.send().await.not_found("Schedule not found");
        }
    }
    let theirs = service.call("POST", "/v1/schedules").key(&other_key);
    let theirs = theirs.json(&super::harness::schedule_with(json!({}))).send().await;
    let theirs = path(&id(&theirs.body["data"]));
    let refused = service.call("PUT", &theirs).key(&other_key).json(&given).send().await;
    refused.invalid(json!({ "channelIds": ["Channel not found"] }));
}

#[tokio::test]
async fn the_warning_explains_missing_alerts() {
    let service = Service::start().await;
    let (schedule, target) = (schedule(&service).await, accepting().await);
    let (one, two) = (service.verified(&target).await, service.verified(&target).await);
    set(&service, &schedule, json!({ "notifyOn": "failure", "channelIds": [one, two] })).await.ok();
    let channel = |id: &str| format!("/v1/notification-channels/{id}");
    let change = json!({ "label": "Ops", "config": { "url": target.url("/moved") } });
    service.patch(&channel(&one), &change).await.ok();
    let read = get(&service, &schedule).await;
    assert_eq!(
        read["warning"],
        "Some alerts cannot be delivered: the channel \"Ops\" is not verified, verify it again"
    );
    assert_eq!(read["channels"].as_array().map(Vec::len), Some(1), "only verified ones");
    // After it is verified again, the channel is still attached.
    service.call("POST", &format!("{}/verify", channel(&one))).send().await.ok();
    let read = get(&service, &schedule).await;
    assert_eq!(
        (&read["warning"], read["channels"][0]["channelId"].as_str()),
        (&Value::Null, Some(&*one))
    );

    service.call("DELETE", &channel(&one)).send().await.ok();
    assert_eq!(
        get(&service, &schedule).await["warning"],
        "The channel \"Ops\" was deleted, alerts are delivered to the remaining channels"
    );
    service.call("DELETE", &channel(&two)).send().await.ok();
    let read = get(&service, &schedule).await;
    assert_eq!(
        read["warning"],
        "Alerts cannot be delivered: the channel \"Hook\" was deleted, attach another one"
    );
    assert_eq!((&read["channels"], &read["notifyOn"]), (&json!([]), &json!("failure")));
    set(&service, &schedule, json!({ "notifyOn": "none" })).await.ok();
    assert_eq!(get(&service, &schedule).await["warning"], Value::Null);
}

#[tokio::test]
async fn plans_limit_outcomes_and_types() {
    let plan = Plan {
        channel_types: Some(vec![ChannelType::Email]),
        notify_on: Some(vec![NotifyOn::Failure]),
        ..Plan::unlimited("free")
    };
    let setup = Setup { plans: vec![plan], ..Setup::default() };
    let service = Service::with(setup).await;
    let (schedule, channel) =
        (schedule(&service).await, service.verified(&accepting().await).await);
    let wish = |notify_on: &str| json!({ "notifyOn": notify_on, "channelIds": [channel] });
    set_plan(&service, "free").await;
    let refuse = |limit: &str| json!({ "limit": limit, "max": 0, "current": null, "requested": 1, "plan": "free" });
    for (notify_on, outcomes) in [("success", "success"), ("both", "failure and success")] {
        let refused = set(&service, &schedule, wish(notify_on)).await;
        let message = format!("The plan free does not allow alerts on {outcomes}");
        refused.refused(403, "PLAN_LIMIT_EXCEEDED", &message);
        assert_eq!(refused.body["error"]["details"], refuse("notifyOn"));
    }
    let refused = set(&service, &schedule, wish("failure")).await;
    let message = "The plan free does not allow channels of type webhook";
    refused.refused(403, "PLAN_LIMIT_EXCEEDED", message);
    assert_eq!(refused.body["error"]["details"], refuse("channelTypes"));

    // Settings from a larger plan stay, and those within the current limits can be changed.
    set_plan(&service, "unlimited").await;
    set(&service, &schedule, wish("both")).await.ok();
    set_plan(&service, "free").await;
    let mut changed = wish("both");
    changed["failureThreshold"] = json!(7);
    assert_eq!(set(&service, &schedule, changed).await.ok()["failureThreshold"], 7);
    set(&service, &schedule, json!({ "notifyOn": "none" })).await.ok();
    assert_eq!(set(&service, &schedule, wish("both")).await.status, 403);
}

#[tokio::test]
async fn a_read_key_reads_and_a_deleted_schedule_has_no_preference() {
    let service = Service::start().await;
    let schedule = schedule(&service).await;
    let read_key = service.read_key().await;
    service.call("GET", &path(&schedule)).key(&read_key).send().await.ok();
    let given = json!({ "notifyOn": "none" });
    let refused = service.call("PUT", &path(&schedule)).key(&read_key).json(&given).send().await;
    assert_eq!((refused.status, &refused.body["error"]["code"]), (403, &json!("FORBIDDEN")));
    service.call("DELETE", &format!("/v1/schedules/{schedule}")).send().await.ok();
    service.get(&path(&schedule)).await.not_found("Schedule not found");
    set(&service, &schedule, given).await.not_found("Schedule not found");
}
