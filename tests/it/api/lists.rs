//! Lists of schedules: pages, filters, sort orders, cursors.

use serde_json::{Value, json};

use super::harness::{Answer, Service};

fn names(answer: &Answer) -> Vec<&str> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    let data = answer.body["data"].as_array().expect("an array");
    data.iter().map(|record| record["name"].as_str().expect("a name")).collect()
}

async fn with_schedules() -> Service {
    let service = Service::start().await;
    for (name, method, enabled, cron) in [
        ("alpha", "GET", true, "0 3 * * *"),
        ("Beta", "POST", true, "0 1 * * *"),
        ("gamma_%", "POST", false, "0 1 * * *"),
        ("delta", "PUT", true, "0 2 * * *"),
        ("epsilon", "GET", false, "0 2 * * *"),
    ] {
        let fields = json!({
            "name": name, "httpMethod": method, "isEnabled": enabled, "cronExpression": cron,
            "timezone": "UTC", "description": format!("about {name}"),
            "endpoint": format!("https://{}.example.com/", name.replace("_%", "").to_lowercase()),
        });
        service.create(fields).await;
        service.advance(1);
    }
    service
}

#[tokio::test]
async fn the_newest_come_first_beside_their_pagination() {
    let service = with_schedules().await;
    let answer = service.get("/v1/schedules").await;
    assert_eq!(names(&answer), ["epsilon", "delta", "gamma_%", "Beta", "alpha"]);
    let pagination = json!({
        "page": 1, "pageSize": 1000, "total": 5, "totalPages": 1, "nextCursor": null,
    });
    assert_eq!(answer.body["pagination"], pagination);
    assert_eq!(
        (&answer.body["success"], answer.body.as_object().map(|o| o.len())),
        (&json!(true), Some(3))
    );
}

#[tokio::test]
async fn pages_and_cursors_lead_through_every_order() {
    let service = with_schedules().await;
    for (sort, expected) in [
        ("name", ["Beta", "alpha", "delta", "epsilon", "gamma_%"]),
        ("-name", ["gamma_%", "epsilon", "delta", "alpha", "Beta"]),
        ("createdAt", ["alpha", "Beta", "gamma_%", "delta", "epsilon"]),
        ("-createdAt", ["epsilon", "delta", "gamma_%", "Beta", "alpha"]),
        ("nextRunAtUtc", ["gamma_%", "epsilon", "Beta", "delta", "alpha"]),
        ("-nextRunAtUtc", ["alpha", "delta", "Beta", "epsilon", "gamma_%"]),
        ("lastRunAtUtc", ["alpha", "Beta", "gamma_%", "delta", "epsilon"]),
    ] {
        let all = service.get(&format!("/v1/schedules?sort={sort}")).await;
        assert_eq!(names(&all), expected, "{sort}");
        let (mut by_cursor, mut by_page) = (Vec::new(), Vec::new());
        let mut next = format!("/v1/schedules?sort={sort}&pageSize=2");
        for page in 1..=3 {
            let answer = service.get(&next).await;
            by_cursor.extend(names(&answer).into_iter().map(str::to_owned));
            let numbered = format!("/v1/schedules?sort={sort}&limit=2&page={page}");
            let numbered = service.get(&numbered).await;
            by_page.extend(names(&numbered).into_iter().map(str::to_owned));
            assert_eq!(answer.body["pagination"]["totalPages"], 3);
            let cursor = &answer.body["pagination"]["nextCursor"];
            assert_eq!(cursor.is_null(), page == 3, "{sort} {page}");
            let cursor = cursor.as_str().unwrap_or_default();
            assert!(cursor.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)));
            next = format!("/v1/schedules?sort={sort}&pageSize=2&cursor={cursor}");
        }
        assert_eq!(by_cursor, expected, "{sort}");
        assert_eq!(by_page, expected, "{sort}");
    }
    assert_eq!(names(&service.get("/v1/schedules?page=99").await), [""; 0]);
}

#[tokio::test]
async fn filters_narrow_the_list() {
    let service = with_schedules().await;
    for (query, expected) in [
        ("q=BETA", vec!["Beta"]),
        ("q=about", vec!["epsilon", "delta", "gamma_%", "Beta", "alpha"]),
        ("q=alpha.example", vec!["alpha"]),
        ("q=%25", vec!["gamma_%"]),
        ("q=_", vec!["gamma_%"]),
        ("q=%27%20OR%201%3D1--", vec![]),
        ("isEnabled=false", vec!["epsilon", "gamma_%"]),
        ("isEnabled=true&httpMethod=GET", vec!["alpha"]),
        ("httpMethod=POST", vec!["gamma_%", "Beta"]),
        (
            "q=&isEnabled=&sort=&cursor=&limit=",
            vec!["epsilon", "delta", "gamma_%", "Beta", "alpha"],
        ),
        ("unknown=1&Q=x", vec!["epsilon", "delta", "gamma_%", "Beta", "alpha"]),
    ] {
        let answer = service.get(&format!("/v1/schedules?{query}")).await;
        assert_eq!(names(&answer), expected, "{query}");
        assert_eq!(answer.body["pagination"]["total"], expected.len(), "{query}");
    }
}

#[tokio::test]
async fn wrong_parameters_are_named_and_odd_sizes_clamped() {
    let service = with_schedules().await;
    for (query, name, message) in [
        ("page=x", "page", "Must be an integer"),
        ("pageSize=1.5", "pageSize", "Must be an integer"),
        ("limit=abc", "limit", "Must be an integer"),
        ("isEnabled=yes", "isEnabled", "Must be true or false"),
        ("httpMethod=get", "httpMethod", "Must be one of GET, POST, PUT, DELETE, PATCH"),
        ("q=%00", "q", "Must not contain NUL characters"),
        ("cursor=x", "cursor", "Must be a cursor from an answer to the same query"),
        ("cursor=%2B%2F", "cursor", "Must be a cursor from an answer to the same query"),
    ] {
        let answer = service.get(&format!("/v1/schedules?{query}")).await;
        answer.invalid(json!({ name: [message] }));
    }
    let sort = service.get("/v1/schedules?sort=id").await;
    assert_eq!(sort.status, 400);
    assert!(sort.body["error"]["details"]["fieldErrors"]["sort"].is_array());
    for (query, page, size) in [
        ("pageSize=0", 1, 1),
        ("pageSize=-1", 1, 1),
        ("limit=1000000000000000000000", 1, 1_000),
        ("page=0", 1, 1_000),
        ("page=-7&limit=2", 1, 2),
    ] {
        let answer = service.get(&format!("/v1/schedules?{query}")).await;
        let pagination = &answer.body["pagination"];
        assert_eq!((&pagination["page"], &pagination["pageSize"]), (&json!(page), &json!(size)));
    }
    let huge = service.get("/v1/schedules?page=99999999999999999999").await;
    assert_eq!(huge.body["data"], json!([]));
}

#[tokio::test]
async fn a_page_ends_early_when_it_grows_too_large() {
    let service = Service::start().await;
    let body = "x".repeat(250_000);
    let items: Value = (0..40)
        .map(|index| {
            super::harness::schedule_with(json!({ "name": index.to_string(), "body": body }))
        })
        .collect();
    assert_eq!(service.post("/v1/schedules/bulk", &items).await.status, 201);
    let first = service.get("/v1/schedules?sort=name").await;
    let shown = names(&first).len();
    assert!((25..40).contains(&shown), "{shown}");
    assert!(first.text.len() < 9 << 20);
    let cursor = first.body["pagination"]["nextCursor"].as_str().expect("there is more");
    let rest = service.get(&format!("/v1/schedules?sort=name&cursor={cursor}")).await;
    assert_eq!(names(&rest).len(), 40 - shown);
}
