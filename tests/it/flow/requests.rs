//! The requests that a target receives.

use serde_json::json;

use crate::harness::app::Service;
use crate::harness::recorder::Hit;

/// Runs a schedule once. Returns the received request and the job.
async fn sent(service: &Service, fields: serde_json::Value) -> (Hit, serde_json::Value) {
    let id = service.api.run(&service.target.url("/ok"), fields).await;
    let job = service.api.finished(&id).await;
    assert_eq!(job["status"], "SUCCESS", "{job}");
    (service.target.hits_of(&id).swap_remove(0), job)
}

#[tokio::test]
async fn a_request_names_its_schedule_and_job() {
    let service = Service::start().await;
    let (hit, job) = sent(&service, json!({})).await;
    let version = concat!("Punctual/", env!("CARGO_PKG_VERSION"));
    assert_eq!(hit.header("user-agent"), version);
    assert_eq!(Some(hit.header("punctual-job-id")), job["id"].as_str());
    assert_eq!(Some(hit.header("idempotency-key")), job["id"].as_str());
    assert_eq!(Some(hit.header("punctual-schedule-id")), job["scheduleId"].as_str());
    assert_eq!(Some(hit.header("punctual-scheduled-at")), job["scheduledRunAtUtc"].as_str());
    assert_eq!(hit.header("punctual-attempt"), "1");
    assert_eq!(hit.header("accept-encoding"), "identity");
}

#[tokio::test]
async fn the_idempotency_key_is_the_same_on_every_attempt() {
    let service = Service::start().await;
    let id = service.api.run(&service.target.url("/seq/500,500,200"), json!({})).await;
    service.api.finished(&id).await;
    let hits = service.target.hits_of(&id);
    assert_eq!(hits.len(), 3);
    assert!(hits.iter().all(|hit| hit.header("idempotency-key") == id));
}

#[tokio::test]
async fn headers_of_the_user_win() {
    let service = Service::start().await;
    let headers = json!({
        "User-Agent": "mine/1",
        "Idempotency-Key": "fixed",
        "Content-Type": "application/x-own",
        "X-Token": "secret",
    });
    let fields = json!({ "headers": headers.to_string(), "body": "{\"a\":1}" });
    let (hit, _) = sent(&service, fields).await;
    assert_eq!(hit.header("user-agent"), "mine/1");
    assert_eq!(hit.header("idempotency-key"), "fixed");
    assert_eq!(hit.header("content-type"), "application/x-own");
    assert_eq!(hit.header("x-token"), "secret");
}

#[tokio::test]
async fn a_body_has_the_content_type_that_fits() {
    let service = Service::start().await;
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        for (body, content_type) in
            [("{\"a\": [1]}", "application/json"), ("plain ü", "text/plain; charset=utf-8")]
        {
            let (hit, _) = sent(&service, json!({ "httpMethod": method, "body": body })).await;
            assert_eq!((hit.method.as_str(), &hit.body[..]), (method, body.as_bytes()));
            assert_eq!(hit.header("content-type"), content_type);
        }
    }
}

#[tokio::test]
async fn get_has_no_body() {
    let service = Service::start().await;
    let (hit, _) = sent(&service, json!({ "httpMethod": "GET", "body": "{}" })).await;
    assert_eq!((hit.method.as_str(), hit.body.len()), ("GET", 0));
    assert!(!hit.headers.contains_key("content-type"), "{:?}", hit.headers);
    assert!(!hit.headers.contains_key("content-length"), "{:?}", hit.headers);
}
