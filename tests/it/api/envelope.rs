//! Every error has the same envelope.

use serde_json::json;

use super::harness::{Service, Setup, id, schedule_with};

#[tokio::test]
async fn unknown_paths_and_methods() {
    let service = Service::start().await;
    for path in ["/v1", "/v1/nothing", "/v1/schedules/", "/v1/jobs/a/b/c"] {
        service.get(path).await.not_found("Not found");
    }
    for path in ["/v2/schedules", "/favicon.ico", "/docs/../x", "/docs/x"] {
        service.bare("GET", path).send().await.not_found("Not found");
    }
    // These paths exist only on the operations listener.
    for path in ["/metrics", "/healthz", "/readyz", "/echo", "/v1/metrics", "/v1/healthz"] {
        service.call("GET", path).send().await.not_found("Not found");
    }
    for (method, path, allow) in [
        ("DELETE", "/v1/account", "GET,HEAD"),
        ("PUT", "/v1/schedules", "GET,HEAD,POST"),
        ("OPTIONS", "/v1/jobs", "GET,HEAD"),
        ("GET", "/v1/schedules/bulk", "POST"),
        ("POST", "/v1/schedules/x", "GET,HEAD,PUT,PATCH,DELETE"),
        ("POST", "/docs", "GET,HEAD"),
    ] {
        let answer = service.call(method, path).send().await;
        answer.refused(405, "METHOD_NOT_ALLOWED", "Method not allowed");
        let sorted = |list: &str| {
            let mut list: Vec<_> = list.split(',').map(str::to_owned).collect();
            list.sort();
            list
        };
        assert_eq!(sorted(answer.header("allow")), sorted(allow), "{method} {path}");
    }
}

/// S27: the headers against content sniffing are also on errors and on responses without a body.
#[tokio::test]
async fn no_answer_is_taken_for_something_else() {
    let service = Service::start().await;
    for (method, path, status) in [
        ("GET", "/v1/schedules", 200),
        ("HEAD", "/v1/schedules", 200),
        ("POST", "/v1/schedules", 400),
        ("GET", "/v1/jobs/x", 404),
        ("PUT", "/v1/schedules", 405),
        ("GET", "/openapi.json", 200),
        ("GET", "/docs/", 307),
    ] {
        let answer = service.call(method, path).send().await;
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{method} {path}");
    }
    let refused = service.bare("GET", "/v1/schedules").send().await;
    assert_eq!((refused.status, refused.header("x-content-type-options")), (401, "nosniff"));
}

#[tokio::test]
async fn ids_of_any_other_form_are_not_found() {
    let service = Service::start().await;
    for id in
        ["x", "sch_", "sch_01", "job_01HF7YAT000000000000000007", "%00", "%ff", "a%2Fb", "%20"]
    {
        service.get(&format!("/v1/schedules/{id}")).await.not_found("Schedule not found");
        let toggle = format!("/v1/schedules/{id}/toggle");
        let toggled = service.patch(&toggle, &json!({ "enabled": true })).await;
        toggled.not_found("Schedule not found");
    }
    for id in ["x", "job_", "sch_01HF7YAT000000000000000007", "%ff", &"j".repeat(5_000)] {
        service.get(&format!("/v1/jobs/{id}")).await.not_found("Job not found");
        let retried = service.call("POST", &format!("/v1/jobs/{id}/retry")).send().await;
        retried.not_found("Job not found");
    }
}

#[tokio::test]
async fn bodies_must_be_json_by_their_headers_and_in_fact() {
    let service = Service::start().await;
    let valid = schedule_with(json!({})).to_string();
    let call = || service.call("POST", "/v1/schedules").body(valid.clone());
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let answer = call().header("content-type", content_type).send().await;
        let message = "Request bodies must be application/json";
        answer.refused(415, "UNSUPPORTED_MEDIA_TYPE", message);
    }
    let encoded = call().header("content-encoding", "gzip").send().await;
    encoded.refused(415, "UNSUPPORTED_MEDIA_TYPE", "Request bodies must not be encoded");
    assert_eq!(call().send().await.status, 201, "a missing content type is JSON");
    let vendor = call().header("content-type", "application/vnd.x+json; charset=utf-8");
    assert_eq!(vendor.send().await.status, 201);

    for body in ["", " ", "{", "{}{}", "{\"a\":}", "\u{feff}{}", "{'a': 1}", "nul"] {
        let answer = service.call("POST", "/v1/schedules").body(body).send().await;
        answer.refused(400, "VALIDATION_ERROR", "Validation error");
        let details = json!({ "fieldErrors": {}, "formErrors": ["Invalid JSON body"] });
        assert_eq!(answer.body["error"]["details"], details, "{body}");
    }
    for body in ["[]", "null", "\"x\"", "7"] {
        let answer = service.call("POST", "/v1/schedules").body(body).send().await;
        let details = json!({ "fieldErrors": {}, "formErrors": ["Must be a JSON object"] });
        assert_eq!(answer.body["error"]["details"], details, "{body}");
    }
}

#[tokio::test]
async fn calls_without_a_body_accept_none_or_any() {
    let service = Service::start().await;
    let path = format!("/v1/schedules/{}/trigger", id(&service.create(json!({})).await));
    service.call("POST", &path).send().await.ok();
    service.call("POST", &path).json(&json!({ "anything": [] })).send().await.ok();
    service
        .call("POST", &path)
        .body("not JSON")
        .header("content-type", "text/plain")
        .send()
        .await
        .ok();
}

#[tokio::test]
async fn every_answer_names_its_request() {
    let service = Service::start().await;
    let given =
        service.call("GET", "/v1/account").header("x-request-id", "mine-1_2.3").send().await;
    assert_eq!(given.header("x-request-id"), "mine-1_2.3");
    for other in ["a b", "<script>", &"x".repeat(65), ""] {
        let made = service.call("GET", "/v1/account").header("x-request-id", other).send().await;
        assert_eq!(made.header("x-request-id").len(), 32, "{other:?}");
    }
    for path in ["/nothing", "/openapi.json", "/v1/nothing"] {
        assert_eq!(service.bare("GET", path).send().await.header("x-request-id").len(), 32);
    }
}

#[tokio::test]
async fn everything_can_be_mounted_under_a_prefix() {
    let service = Service::with(Setup { base_path: "/api", ..Setup::default() }).await;
    let created = service.post("/api/v1/schedules", &schedule_with(json!({}))).await;
    assert_eq!(created.status, 201, "{}", created.text);
    let location = created.header("location").to_owned();
    assert!(location.starts_with("/api/v1/schedules/sch_"), "{location}");
    service.get(&location).await.ok();
    service.bare("GET", "/v1/schedules").send().await.not_found("Not found");
    let bulk = service.bare("POST", "/api/v1/schedules/bulk").send().await;
    bulk.refused(401, "UNAUTHORIZED", "Missing x-api-key header");
    let wrong = service.call("PUT", "/api/v1/jobs").send().await;
    wrong.refused(405, "METHOD_NOT_ALLOWED", "Method not allowed");
    assert_eq!(service.get("/api/v1/nothing").await.status, 404);
    let document = service.bare("GET", "/api/openapi.json").send().await;
    assert_eq!(document.body["servers"], json!([{ "url": "/api" }]));
    assert_eq!(service.bare("GET", "/api/docs").send().await.status, 200);
    let reference = service.bare("GET", "/api/docs/").send().await;
    assert_eq!(reference.header("location"), "/api/docs");
}
