//! Responses when the store fails and when the service itself panics.

use serde_json::{Value, json};

use super::harness::{Answer, Service, Setup, at, id, schedule_with};
use crate::conformance::faults::Faults;

/// Repeats a call until its result is certain.
async fn insist(service: &Service, method: &str, path: &str, key: &str, body: &Value) -> Answer {
    for _ in 0..100 {
        let call = service.call(method, path).header("idempotency-key", key).json(body);
        let answer = call.send().await;
        match (answer.status, answer.body["error"]["code"].as_str()) {
            (503, code) => assert_eq!(code, Some("SERVICE_UNAVAILABLE"), "{}", answer.text),
            // The reservation of the key could not be released.
            (409, Some("IDEMPOTENCY_IN_PROGRESS")) => service.advance(61),
            _ => return answer,
        }
    }
    panic!("{method} {path} has no end");
}

#[tokio::test]
async fn calls_that_are_made_again_take_effect_once_whatever_the_store_answers() {
    let faults = Faults::of("calls_that_are_made_again");
    let service = Service::with(Setup { faults: Some(faults.clone()), ..Setup::default() }).await;
    let post = async |path: &str, key: String, body: Value| {
        insist(&service, "POST", path, &key, &body).await
    };
    for number in 0..20 {
        let one = schedule_with(json!({ "name": format!("one {number}") }));
        let made = post("/v1/schedules", format!("create {number}"), one.clone()).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let path = format!("/v1/schedules/{}/trigger", id(&made.body["data"]));
        post(&path, format!("trigger {number}"), json!({})).await.ok();
        let made = post("/v1/schedules/bulk", format!("bulk {number}"), json!([one, one])).await;
        assert_eq!(made.status, 201, "{}", made.text);
    }
    for (list, expected) in [("/v1/schedules", 60), ("/v1/jobs", 20)] {
        let path = format!("{list}?limit=100");
        let list = insist(&service, "GET", &path, "none", &json!({})).await;
        let data = list.ok();
        let listed = data.get("jobs").unwrap_or(data).as_array();
        assert_eq!(listed.map(Vec::len), Some(expected), "{path}");
    }
    faults.assert_injected();
}

#[tokio::test]
async fn an_unavailable_store_is_answered_with_503() {
    let service = Service::start().await;
    service.get("/v1/account").await.ok();
    service.store.close().await;
    let create = service.post("/v1/schedules", &schedule_with(json!({}))).await;
    for answer in [service.get("/v1/schedules").await, create] {
        let message = "Service unavailable, try again soon";
        answer.refused(503, "SERVICE_UNAVAILABLE", message);
        assert_eq!(answer.header("retry-after"), "2");
        assert_eq!(answer.limits().0, "100000");
    }
    service.advance(5);
    let unknown = service.get("/v1/schedules").await;
    assert_eq!(unknown.status, 503, "a key that cannot be looked up is not invalid");
    assert_eq!(unknown.limits().0, "100000");
    assert_eq!(service.bare("GET", "/v1/jobs").send().await.status, 401);
    assert_eq!(service.bare("GET", "/openapi.json").send().await.status, 200);
}

#[tokio::test]
async fn a_fault_of_the_store_is_answered_with_500_and_the_requests_id() {
    let service = Service::start().await;
    let path = service.folder.path().join("punctual.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
    let mut connection = sqlx::ConnectOptions::connect(&options).await.expect("opened");
    sqlx::query("ALTER TABLE schedules RENAME TO lost")
        .execute(&mut connection)
        .await
        .expect("renamed");
    let answer = service.call("GET", "/v1/schedules").header("x-request-id", "abc").send().await;
    answer.refused(500, "INTERNAL_ERROR", "Internal server error");
    assert_eq!(answer.body["error"]["details"], json!({ "requestId": "abc" }));
    assert_eq!((answer.header("x-request-id"), answer.limits().2), ("abc", &*at(60)));
    assert!(!answer.text.contains("schedules"), "the answer has no internal details");
}

#[tokio::test]
async fn a_command_that_panics_is_answered_in_the_envelope() {
    // A command panics if the installation has no shards.
    let service = Service::with(Setup { shards: 0, ..Setup::default() }).await;
    let answer = service.post("/v1/schedules", &schedule_with(json!({}))).await;
    answer.refused(500, "INTERNAL_ERROR", "Internal server error");
    assert_eq!(answer.limits().0, "100000");
    service.get("/v1/schedules").await;
}

#[tokio::test]
async fn a_command_cut_short_by_the_end_of_the_process_is_answered_with_503() {
    let service = Service::start().await;
    service.tasks.finish(std::time::Duration::ZERO).await;
    let answer = service.post("/v1/schedules", &schedule_with(json!({}))).await;
    answer.refused(503, "SERVICE_UNAVAILABLE", "Service unavailable, try again soon");
}
