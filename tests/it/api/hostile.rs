//! Malicious input (S23, S25, S26).

use std::time::{Duration, Instant};

use serde_json::json;

use super::harness::{Service, id, schedule_with};

#[tokio::test]
async fn hostile_json_is_refused_and_nothing_is_stored() {
    let service = Service::start().await;
    let valid = schedule_with(json!({})).to_string();
    let with = |extra: &str| format!("{},{extra}}}", &valid[..valid.len() - 1]).into_bytes();
    let deep = format!("\"x\": {}{}", "[".repeat(10_000), "]".repeat(10_000));
    let deeper = format!("\"x\": {}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    let mut bodies = vec![
        with(&deep),
        with(&deeper),
        with("\"x\": 1e400"),
        with("\"maxRetries\": 1e400"),
        with("\"x\": \"\\ud800\""),
        with("\"x\": NaN"),
        with("\"x\": 01"),
        [valid.as_bytes(), b"}"].concat(),
        [valid.as_bytes(), b"\0"].concat(),
        [b"\xef\xbb\xbf", valid.as_bytes()].concat(),
        b"\xff\xfe{\0}\0".to_vec(),
        "[".repeat(1_000_000).into_bytes(),
    ];
    let mut latin = with("\"description\": \"?\"");
    let index = latin.iter().rposition(|byte| *byte == b'?').expect("there");
    latin[index] = 0xe9;
    bodies.push(latin);
    for body in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(400)]).into_owned();
        let answer = service.call("POST", "/v1/schedules").body(body).send().await;
        assert_eq!(answer.status, 400, "{shown}");
        let form = &answer.body["error"]["details"]["formErrors"];
        assert_eq!(form, &json!(["Invalid JSON body"]), "{shown}");
    }
    assert_eq!(service.get("/v1/schedules").await.body["pagination"]["total"], 0);
}

#[tokio::test]
async fn of_a_name_that_comes_twice_the_last_counts() {
    let service = Service::start().await;
    let valid = schedule_with(json!({})).to_string();
    let twice = format!("{},\"name\": \"second\"}}", &valid[..valid.len() - 1]);
    let answer = service.call("POST", "/v1/schedules").body(twice).send().await;
    assert_eq!((answer.status, &answer.body["data"]["name"]), (201, &json!("second")));
}

#[tokio::test]
async fn texts_are_stored_unchanged() {
    let service = Service::start().await;
    for text in [
        "'; DROP TABLE schedules; --",
        "\" OR \"\"=\"",
        "%_\\",
        "$1 ?1 :a {0}",
        "<script>alert(1)</script>",
        "a\r\nX-Injected: b",
        "\u{202e}\u{200b}\u{feff}",
        "\u{1}\u{7f}\u{9b}[31m",
        "𝕬🦀é",
    ] {
        let fields = json!({ "name": text, "description": text, "body": text });
        let created = service.create(fields).await;
        let read = service.get(&format!("/v1/schedules/{}", id(&created))).await;
        for name in ["name", "description", "body"] {
            assert_eq!(read.ok()[name], text, "{name}");
        }
        let query: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
        let found = service.get(&format!("/v1/schedules?q={query}")).await;
        assert_eq!(found.body["pagination"]["total"], 1, "{text}");
    }
}

#[tokio::test]
async fn hostile_queries_are_answered() {
    let service = Service::start().await;
    let values = [
        "'",
        "%00",
        "%",
        "%zz",
        "%ff%fe",
        "%25",
        "\u{3b}",
        "..%2f..%2f",
        "*",
        "1%3BSELECT",
        "-0",
        "9".repeat(400).as_str(),
        "a".repeat(8_000).as_str(),
        "%F0%9F%A6%80",
        "+",
        "&&&=",
    ]
    .map(str::to_owned);
    for name in [
        "q",
        "page",
        "pageSize",
        "limit",
        "isEnabled",
        "httpMethod",
        "sort",
        "cursor",
        "status",
        "trigger",
        "from",
        "to",
        "scheduleId",
        "%00",
        "",
    ] {
        for value in &values {
            for path in ["/v1/schedules", "/v1/jobs"] {
                let answer = service.get(&format!("{path}?{name}={value}")).await;
                assert!(
                    matches!(answer.status, 200 | 400),
                    "{path}?{name}={value}: {}",
                    answer.text
                );
            }
        }
    }
}

#[tokio::test]
async fn hostile_expressions_are_answered_fast() {
    let service = Service::start().await;
    let long = vec!["0"; 10_000].join(",") + " * * * *";
    let began = Instant::now();
    for expression in ["0 0 31 2 *", "0 0 29 2 1", "0 0 30 2 *", ", * * * *", &long, "*/0 * * * *"]
    {
        let body = schedule_with(json!({ "cronExpression": expression }));
        let answer = service.post("/v1/schedules", &body).await;
        assert!(matches!(answer.status, 201 | 400), "{}", answer.text);
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
