//! Creation of one schedule: defaults, clamped values, and every rule of every field.

use serde_json::{Value, json};

use super::harness::{Service, at, id, schedule_with};

#[tokio::test]
async fn a_new_schedule_has_the_defaults_and_reads_back() {
    let service = Service::start().await;
    let answer = service.post("/v1/schedules", &schedule_with(json!({}))).await;
    assert_eq!(answer.status, 201);
    let record = &answer.body["data"];
    let expected = json!({
        "id": record["id"],
        "name": "Nightly",
        "description": null,
        "cronExpression": "0 2 * * *",
        "timezone": "Europe/Berlin",
        "endpoint": "https://example.com/hook",
        "httpMethod": "POST",
        "body": null,
        "headers": null,
        "maxRetries": 3,
        "timeoutSeconds": 30,
        "expectedStatusCodes": null,
        "isEnabled": true,
        "overlapPolicy": "allow",
        "catchUpPolicy": "last",
        "nextRunAtUtc": "2030-01-01T01:00:00.000Z",
        "lastRunAtUtc": null,
        "lastJobStatus": null,
        "consecutiveFailures": 0,
        "signRequests": false,
        "createdAt": at(0),
        "updatedAt": at(0),
    });
    assert_eq!(answer.body, json!({ "data": expected, "success": true }));
    assert!(id(record).starts_with("sch_"));
    assert_eq!(answer.header("location"), format!("/v1/schedules/{}", id(record)));
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(service.get(answer.header("location")).await.ok(), record);
}

#[tokio::test]
async fn all_fields_read_back_as_given() {
    let service = Service::start().await;
    let given = json!({
        "name": "Ünïcödé 🦀 %_'\"; DROP TABLE schedules; --",
        "description": "two\nlines",
        "cronExpression": "  */15\t9-17 * JAN mon-FRI ",
        "timezone": "Asia/Kathmandu",
        "endpoint": "http://example.com:8080/a?b=c#d",
        "httpMethod": "PATCH",
        "body": "{\"a\": 1}",
        "headers": "{\"X-A\": \"b\", \"Authorization\": \"Bearer x\"}",
        "maxRetries": 7,
        "timeoutSeconds": 300,
        "expectedStatusCodes": "200-299, 410",
        "isEnabled": true,
        "overlapPolicy": "queue_one",
        "catchUpPolicy": "skip",
        "signRequests": true,
    });
    let created = service.create(given.clone()).await;
    for (name, value) in given.as_object().expect("an object") {
        assert_eq!(&created[name], value, "{name}");
    }
    let read = service.get(&format!("/v1/schedules/{}", id(&created))).await;
    assert_eq!(read.ok(), &created);
}

#[tokio::test]
async fn integers_are_clamped() {
    let service = Service::start().await;
    for (given, retries, timeout) in [
        (json!(0), 1, 1),
        (json!(-5), 1, 1),
        (json!(1), 1, 1),
        (json!(10), 10, 10),
        (json!(11), 10, 11),
        (json!(301), 10, 300),
        (json!(1e18), 10, 300),
        (json!(u64::MAX), 10, 300),
        (json!(5.0), 5, 5),
        (Value::Null, 3, 30),
    ] {
        let fields = json!({ "maxRetries": given, "timeoutSeconds": given });
        let created = service.create(fields).await;
        let clamped = (&created["maxRetries"], &created["timeoutSeconds"]);
        assert_eq!(clamped, (&json!(retries), &json!(timeout)), "{given}");
    }
}

#[tokio::test]
async fn null_and_blank_stand_for_the_default() {
    let service = Service::start().await;
    let plain = service.create(json!({})).await;
    let nulls = json!({
        "description": null, "body": null, "headers": null, "maxRetries": null,
        "timeoutSeconds": null, "expectedStatusCodes": null, "isEnabled": null,
        "overlapPolicy": null, "catchUpPolicy": null, "signRequests": null,
    });
    let blanks = json!({
        "description": "", "body": "", "headers": "", "expectedStatusCodes": "  ",
        "overlapPolicy": "", "catchUpPolicy": "",
    });
    for fields in [nulls, blanks] {
        let mut created = service.create(fields).await;
        created["id"] = plain["id"].clone();
        assert_eq!(created, plain);
    }
}

#[tokio::test]
async fn fields_of_the_server_and_unknown_ones_are_ignored() {
    let service = Service::start().await;
    let plain = service.create(json!({})).await;
    let mut created = service
        .create(json!({
            "id": "sch_01HF7YAT000000000000000007", "accountId": "acc_x", "verified": true,
            "plan": "pro", "status": "SUCCESS", "createdAt": "2001-01-01T00:00:00.000Z",
            "updatedAt": 7, "nextRunAtUtc": "2001-01-01T00:00:00.000Z", "lastRunAtUtc": [],
            "lastJobStatus": "FAILED", "consecutiveFailures": 99, "shard": 3, "revision": {},
        }))
        .await;
    assert_ne!(created["id"], "sch_01HF7YAT000000000000000007");
    created["id"] = plain["id"].clone();
    assert_eq!(created, plain);
}

#[tokio::test]
async fn a_disabled_schedule_has_no_next_run() {
    let service = Service::start().await;
    let created = service.create(json!({ "isEnabled": false })).await;
    assert_eq!((&created["isEnabled"], &created["nextRunAtUtc"]), (&json!(false), &Value::Null));
}

#[tokio::test]
async fn missing_fields_are_named() {
    let service = Service::start().await;
    service.post("/v1/schedules", &json!({})).await.invalid(json!({
        "name": ["Required"],
        "cronExpression": ["Required"],
        "timezone": ["Required"],
        "endpoint": ["Required"],
        "httpMethod": ["Required"],
    }));
    let nulls = schedule_with(json!({ "name": null, "httpMethod": null }));
    let answer = service.post("/v1/schedules", &nulls).await;
    answer.invalid(json!({ "name": ["Required"], "httpMethod": ["Required"] }));
}

#[tokio::test]
async fn wrong_types_are_named() {
    let service = Service::start().await;
    for name in [
        "name",
        "description",
        "cronExpression",
        "timezone",
        "endpoint",
        "httpMethod",
        "body",
        "headers",
        "expectedStatusCodes",
        "overlapPolicy",
        "catchUpPolicy",
    ] {
        for wrong in [json!(1), json!(true), json!([]), json!({}), json!(1.5)] {
            let answer =
                service.post("/v1/schedules", &schedule_with(json!({ name: wrong }))).await;
            answer.invalid(json!({ name: ["Must be a string"] }));
        }
    }
    for name in ["maxRetries", "timeoutSeconds"] {
        for wrong in [json!("5"), json!(2.5), json!(true), json!([]), json!({}), json!("")] {
            let answer =
                service.post("/v1/schedules", &schedule_with(json!({ name: wrong }))).await;
            answer.invalid(json!({ name: ["Must be an integer"] }));
        }
    }
    for name in ["isEnabled", "signRequests"] {
        for wrong in [json!("true"), json!(1), json!([])] {
            let answer =
                service.post("/v1/schedules", &schedule_with(json!({ name: wrong }))).await;
            answer.invalid(json!({ name: ["Must be a boolean"] }));
        }
    }
}

#[tokio::test]
async fn lengths_count_characters_in_names_and_bytes_in_bodies() {
    let service = Service::start().await;
    for (name, fits, over, message) in [
        ("name", "é".repeat(255), "é".repeat(256), "Must be between 1 and 255 characters"),
        ("description", "🦀".repeat(1_000), "x".repeat(1_001), "Must be at most 1000 characters"),
        ("body", "x".repeat(262_144), "é".repeat(131_073), "Must be at most 262144 bytes"),
    ] {
        assert_eq!(service.create(json!({ name: fits })).await[name], fits);
        let answer = service.post("/v1/schedules", &schedule_with(json!({ name: over }))).await;
        answer.invalid(json!({ name: [message] }));
    }
    let empty = service.post("/v1/schedules", &schedule_with(json!({ "name": "" }))).await;
    empty.invalid(json!({ "name": ["Must be between 1 and 255 characters"] }));
    for name in ["name", "description", "body"] {
        let nul = schedule_with(json!({ name: "a\u{0}b" }));
        let answer = service.post("/v1/schedules", &nul).await;
        answer.invalid(json!({ name: ["Must not contain NUL characters"] }));
    }
}

#[tokio::test]
async fn every_field_has_its_message() {
    let service = Service::start().await;
    let big_headers = format!("{{\"X\": \"{}\"}}", "x".repeat(16_384));
    for (name, wrong, message) in [
        ("cronExpression", "0 0 30 2 *", "Invalid cron expression"),
        ("cronExpression", "* * * * * *", "Invalid cron expression"),
        ("cronExpression", "@daily", "Invalid cron expression"),
        ("cronExpression", "", "Invalid cron expression"),
        ("cronExpression", &"0,".repeat(5_000), "Invalid cron expression"),
        ("timezone", "Mars/Olympus", "Invalid timezone"),
        ("timezone", "europe/berlin", "Invalid timezone"),
        ("timezone", "", "Invalid timezone"),
        ("endpoint", "example.com", "Must be a valid URL"),
        ("endpoint", "ftp://example.com/", "Must be a valid URL"),
        ("endpoint", "https://user:pass@example.com/", "Must be a valid URL"),
        ("endpoint", "http://127.1/", "URL resolves to a disallowed address"),
        ("endpoint", "http://localhost:8080/", "URL resolves to a disallowed address"),
        ("endpoint", "http://example.com:6379/", "URL uses a disallowed port"),
        ("httpMethod", "HEAD", "Must be one of GET, POST, PUT, DELETE, PATCH"),
        ("httpMethod", "post", "Must be one of GET, POST, PUT, DELETE, PATCH"),
        ("headers", "[]", "Headers must be a valid JSON object of strings"),
        ("headers", "{\"a\": 1}", "Headers must be a valid JSON object of strings"),
        ("headers", &big_headers, "Headers must be a valid JSON object of strings"),
        ("expectedStatusCodes", "200,", "Invalid status codes"),
        ("expectedStatusCodes", "600", "Invalid status codes"),
        ("overlapPolicy", "never", "Must be one of allow, skip, queue_one"),
        ("catchUpPolicy", "none", "Must be one of last, all, skip"),
    ] {
        let answer = service.post("/v1/schedules", &schedule_with(json!({ name: wrong }))).await;
        answer.invalid(json!({ name: [message] }));
    }
    let host = schedule_with(json!({ "headers": "{\"Host\": \"x\"}" }));
    let answer = service.post("/v1/schedules", &host).await;
    assert_eq!(answer.status, 400);
    assert!(
        answer.body["error"]["details"]["fieldErrors"]["headers"][0]
            .as_str()
            .is_some_and(|message| message.contains("Host"))
    );
}

#[tokio::test]
async fn all_mistakes_are_reported_at_once() {
    let service = Service::start().await;
    let wrong = json!({
        "name": 7, "cronExpression": "x", "timezone": "x", "endpoint": "x", "httpMethod": "x",
        "maxRetries": "x",
    });
    service.post("/v1/schedules", &wrong).await.invalid(json!({
        "name": ["Must be a string"],
        "cronExpression": ["Invalid cron expression"],
        "timezone": ["Invalid timezone"],
        "endpoint": ["Must be a valid URL"],
        "httpMethod": ["Must be one of GET, POST, PUT, DELETE, PATCH"],
        "maxRetries": ["Must be an integer"],
    }));
    assert_eq!(service.get("/v1/schedules").await.body["pagination"]["total"], 0);
}
