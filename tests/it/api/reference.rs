//! The OpenAPI document and the pages that show it.

use serde_json::Value;

use super::harness::Service;

#[tokio::test]
async fn the_document_is_served_as_it_is_printed() {
    let service = Service::start().await;
    let served = service.bare("GET", "/openapi.json").send().await;
    assert_eq!((served.status, served.header("content-type")), (200, "application/json"));
    let printed = punctual::api::document("").to_json().expect("written");
    assert_eq!(served.text, printed);
    assert_eq!(
        (&served.body["openapi"], &served.body["info"]["version"]),
        (&"3.1.0".into(), &"1.0.0".into())
    );
}

/// S48: a route is registered together with its OpenAPI entry. This list detects lost routes.
#[test]
fn every_route_of_the_contract_is_documented() {
    let document = punctual::api::document("").to_json().expect("written");
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let mut routes: Vec<String> = Vec::new();
    for (path, item) in document["paths"].as_object().expect("an object") {
        for (method, operation) in item.as_object().expect("an object") {
            routes.push(format!("{} {path}", method.to_uppercase()));
            let responses = operation["responses"].as_object().expect("an object");
            if path.starts_with("/v1/") {
                for status in ["401", "413", "429", "500", "503"] {
                    assert!(responses.contains_key(status), "{method} {path} {status}");
                }
                assert!(operation["security"].is_null(), "the key is wanted everywhere");
            }
        }
    }
    routes.sort();
    assert_eq!(
        routes,
        [
            "DELETE /v1/notification-channels/{id}",
            "DELETE /v1/schedules/{id}",
            "GET /docs",
            "GET /docs/{file}",
            "GET /openapi.json",
            "GET /unsubscribe/{account}/{channel}/{token}",
            "GET /v1/account",
            "GET /v1/audit-log",
            "GET /v1/jobs",
            "GET /v1/jobs/{id}",
            "GET /v1/notification-channels",
            "GET /v1/notification-channels/{id}",
            "GET /v1/notification-deliveries",
            "GET /v1/notification-deliveries/{id}",
            "GET /v1/schedules",
            "GET /v1/schedules/{id}",
            "GET /v1/schedules/{id}/notifications",
            "GET /v1/schedules/{id}/skips",
            "PATCH /v1/notification-channels/{id}",
            "PATCH /v1/schedules/{id}",
            "PATCH /v1/schedules/{id}/toggle",
            "POST /unsubscribe/{account}/{channel}/{token}",
            "POST /v1/jobs/{id}/cancel",
            "POST /v1/jobs/{id}/retry",
            "POST /v1/notification-channels",
            "POST /v1/notification-channels/{id}/rotate-secret",
            "POST /v1/notification-channels/{id}/verify",
            "POST /v1/notification-deliveries/{id}/redeliver",
            "POST /v1/schedules",
            "POST /v1/schedules/bulk",
            "POST /v1/schedules/preview",
            "POST /v1/schedules/{id}/trigger",
            "PUT /v1/notification-channels/{id}",
            "PUT /v1/schedules/{id}",
            "PUT /v1/schedules/{id}/notifications",
        ]
    );
}

#[tokio::test]
async fn the_pages_load_nothing_from_elsewhere() {
    let service = Service::start().await;
    let page = service.bare("GET", "/docs").send().await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let linked: Vec<_> = page
        .text
        .split(['"', '\''])
        .filter(|text| text.starts_with("docs/"))
        .map(|file| format!("/{file}"))
        .collect();
    assert_eq!(linked.len(), 4);
    for path in linked.iter().map(String::as_str).chain(["/docs"]) {
        let file = service.bare("GET", path).send().await;
        assert_eq!(file.status, 200, "{path}");
        assert!(!file.text.is_empty(), "{path}");
        let policy = file.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert_eq!(file.header("x-content-type-options"), "nosniff");
        assert_eq!(file.header("referrer-policy"), "no-referrer");
    }
    assert!(
        !page.text.contains("://")
            && !page.text.contains("<script>")
            && !page.text.contains(" style=")
    );
    let moved = service.bare("GET", "/docs/").send().await;
    assert_eq!((moved.status, moved.header("location")), (307, "/docs"));
    assert_eq!(moved.text, "The API reference is at /docs\n");
    for path in ["/docs/index.html", "/docs/%2e%2e", "/docs/%ff", "/docs/swagger-ui.js.map"] {
        service.bare("GET", path).send().await.not_found("Not found");
    }
}
