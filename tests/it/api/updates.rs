//! Changes of schedules.

use punctual::domain::ScheduleId;
use punctual::domain::schedule::SkipReason;
use punctual::store::{ScheduleStore, SkipQuery};
use serde_json::{Value, json};

use super::harness::{Service, at, id, schedule_with, unknown_schedule};

fn path(record: &Value) -> String {
    format!("/v1/schedules/{}", id(record))
}

#[tokio::test]
async fn put_and_patch_change_only_the_given_fields() {
    let service = Service::start().await;
    for method in ["PUT", "PATCH"] {
        let created = service
            .create(json!({ "description": "d", "body": "b", "headers": "{}", "maxRetries": 5 }))
            .await;
        service.advance(1);
        let change = json!({ "name": "New", "timeoutSeconds": 999, "unknown": 1, "id": "x" });
        let answer = service.call(method, &path(&created)).json(&change).send().await;
        let mut expected = created.clone();
        expected["name"] = json!("New");
        expected["timeoutSeconds"] = json!(300);
        expected["updatedAt"] = answer.ok()["updatedAt"].clone();
        assert_ne!(expected["updatedAt"], created["updatedAt"]);
        assert_eq!(answer.ok(), &expected);
        assert_eq!(service.get(&path(&created)).await.ok(), &expected);
    }
}

/// The fields of a schedule that callers set. The service owns all other fields.
const GIVEN: [&str; 14] = [
    "name",
    "description",
    "cronExpression",
    "timezone",
    "endpoint",
    "httpMethod",
    "body",
    "headers",
    "maxRetries",
    "timeoutSeconds",
    "expectedStatusCodes",
    "overlapPolicy",
    "catchUpPolicy",
    "signRequests",
];

/// S20: the service ignores or rejects all fields that it owns, whatever their value.
#[tokio::test]
async fn fields_of_the_service_are_ignored_in_requests() {
    let service = Service::start().await;
    let plain = service.create(json!({})).await;
    let mut owned: Vec<_> = plain.as_object().expect("an object").keys().cloned().collect();
    // Callers set `isEnabled` at creation and with the toggle route.
    owned.retain(|name| !GIVEN.contains(&name.as_str()) && name != "isEnabled");
    assert_eq!(owned.len(), 7, "{owned:?}");
    let hidden = ["accountId", "verified", "plan", "status", "version", "revision", "shard"];
    owned.extend(hidden.map(str::to_owned));
    let account = service.get("/v1/account").await.ok().clone();
    let mut made = 1;
    for value in [json!(at(90)), json!("sch_01HF7YAT000000000000000007"), json!(7), json!([true])] {
        let with = |fields: Value| {
            let mut body = fields;
            owned.iter().for_each(|name| body[name.as_str()] = value.clone());
            body
        };
        let one = service.post("/v1/schedules", &with(schedule_with(json!({})))).await;
        let many = json!([with(schedule_with(json!({})))]);
        let many = service.post("/v1/schedules/bulk", &many).await;
        assert_eq!((one.status, many.status), (201, 201), "{} {}", one.text, many.text);
        made += 2;
        for record in [&one.body["data"], &many.body["data"]["schedules"][0]] {
            assert_ne!(record["id"], value);
            let mut read = service.get(&path(record)).await.ok().clone();
            read["id"] = plain["id"].clone();
            assert_eq!(read, plain, "{value}");
        }
        let toggle = format!("{}/toggle", path(&plain));
        for (method, path, fields) in [
            ("PUT", path(&plain), json!({})),
            ("PATCH", path(&plain), json!({ "name": "Nightly" })),
            ("PATCH", toggle, json!({ "enabled": true })),
        ] {
            let answer = service.call(method, &path).json(&with(fields)).send().await;
            assert_eq!(answer.ok(), &plain, "{method} {value}");
        }
        assert_eq!(service.get(&path(&plain)).await.ok(), &plain, "{value}");
    }
    let mut now = service.get("/v1/account").await.ok().clone();
    assert_eq!(now["usage"]["schedules"], made);
    now["usage"]["schedules"] = account["usage"]["schedules"].clone();
    assert_eq!(now, account);
}

#[tokio::test]
async fn null_and_empty_clear_optional_fields() {
    let service = Service::start().await;
    let full = json!({
        "description": "d", "body": "b", "headers": "{}", "expectedStatusCodes": "200",
        "maxRetries": 9, "timeoutSeconds": 9, "overlapPolicy": "skip", "catchUpPolicy": "all",
        "signRequests": true,
    });
    let plain = service.create(json!({})).await;
    let nulls: Value =
        full.as_object().expect("an object").keys().map(|k| (k.clone(), Value::Null)).collect();
    let created = service.create(full).await;
    let cleared = service.patch(&path(&created), &nulls).await;
    let mut cleared = cleared.ok().clone();
    cleared["id"] = plain["id"].clone();
    assert_eq!(cleared, plain);

    let created = service.create(json!({ "description": "d", "body": "b", "headers": "{}" })).await;
    let empties = json!({ "description": "", "body": "", "headers": "" });
    let cleared = service.patch(&path(&created), &empties).await;
    for name in ["description", "body", "headers"] {
        assert_eq!(cleared.ok()[name], Value::Null, "{name}");
    }
    for name in ["name", "cronExpression", "timezone", "endpoint", "httpMethod"] {
        let answer = service.patch(&path(&created), &json!({ name: null })).await;
        answer.invalid(json!({ name: ["Required"] }));
    }
}

#[tokio::test]
async fn a_new_cadence_runs_from_now_on_and_another_change_leaves_it_alone() {
    let service = Service::start().await;
    let created = service.create(json!({ "cronExpression": "*/5 * * * *" })).await;
    assert_eq!(created["nextRunAtUtc"], "2030-01-01T00:05:00.000Z");
    let renamed = service.patch(&path(&created), &json!({ "name": "x", "maxRetries": 1 })).await;
    assert_eq!(renamed.ok()["nextRunAtUtc"], "2030-01-01T00:05:00.000Z");
    let rezoned = service.patch(&path(&created), &json!({ "timezone": "Asia/Kathmandu" })).await;
    assert_eq!(rezoned.ok()["nextRunAtUtc"], "2030-01-01T00:05:00.000Z", "from now, the same");
    let retimed = service.patch(&path(&created), &json!({ "cronExpression": "0 2 * * *" })).await;
    assert_eq!(retimed.ok()["nextRunAtUtc"], "2030-01-01T20:15:00.000Z");
}

#[tokio::test]
async fn a_change_without_an_effect_is_not_recorded() {
    let service = Service::start().await;
    let created = service.create(json!({})).await;
    service.advance(60);
    let same = service.patch(&path(&created), &schedule_with(json!({ "isEnabled": true }))).await;
    assert_eq!(same.ok(), &created);
    let empty = service.patch(&path(&created), &json!({})).await;
    assert_eq!(empty.ok(), &created);
}

#[tokio::test]
async fn due_ticks_that_a_change_drops_are_recorded() {
    let service = Service::start().await;
    let created = service.create(json!({ "cronExpression": "* * * * *" })).await;
    let schedule: ScheduleId = id(&created).parse().expect("an id");
    service.advance(150);
    let renamed = service.patch(&path(&created), &json!({ "name": "x" })).await;
    assert_eq!(renamed.ok()["nextRunAtUtc"], at(30), "still due, and to be fired");
    let retimed = service.patch(&path(&created), &json!({ "cronExpression": "0 0 1 1 *" })).await;
    assert_eq!(retimed.ok()["nextRunAtUtc"], "2030-12-31T23:00:00.000Z");
    let skips = service.get(&format!("{}/skips", path(&created))).await;
    let expected = json!([{
        "firstUtc": at(30), "lastUtc": at(150), "count": 3, "reason": "superseded",
    }]);
    assert_eq!(skips.ok(), &json!({ "skips": expected, "nextCursor": null }));
    let query = SkipQuery { from: None, to: None, after: None, limit: 10 };
    let page = service.store.skips(service.account.id, schedule, &query).await.expect("read");
    assert_eq!(page.skips[0].reason, SkipReason::Superseded.as_str());
}

#[tokio::test]
async fn wrong_changes_are_refused_whole() {
    let service = Service::start().await;
    let created = service.create(json!({})).await;
    let wrong = json!({ "name": "y", "endpoint": "http://10.0.0.1/", "maxRetries": "2" });
    service.patch(&path(&created), &wrong).await.invalid(json!({
        "endpoint": ["URL resolves to a disallowed address"],
        "maxRetries": ["Must be an integer"],
    }));
    assert_eq!(service.get(&path(&created)).await.ok(), &created);
    let gone = format!("/v1/schedules/{}", unknown_schedule());
    service.patch(&gone, &json!({ "name": "y" })).await.not_found("Schedule not found");
    service.patch(&gone, &wrong).await.not_found("Schedule not found");
}

#[tokio::test]
async fn simultaneous_changes_all_take_effect() {
    let service = Service::start().await;
    let created = service.create(json!({})).await;
    let path = path(&created);
    let (name, retries, body) =
        (json!({ "name": "n" }), json!({ "maxRetries": 9 }), json!({ "body": "b" }));
    let answers = tokio::join!(
        service.patch(&path, &name),
        service.patch(&path, &retries),
        service.patch(&path, &body),
    );
    for answer in [&answers.0, &answers.1, &answers.2] {
        answer.ok();
    }
    let read = service.get(&path).await;
    let read = read.ok();
    assert_eq!(
        (&read["name"], &read["maxRetries"], &read["body"]),
        (&json!("n"), &json!(9), &json!("b"))
    );
}
