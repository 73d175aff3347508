//! Rate limits: the counted calls, their subjects, and the headers.

use punctual::accounts::RateLimits;
use serde_json::json;

use super::harness::{Service, Setup, at};

async fn limited(per_minute: u32, per_hour: u32) -> Service {
    let limits = RateLimits { per_minute, per_hour };
    Service::with(Setup { limits, ..Setup::default() }).await
}

#[tokio::test]
async fn every_answer_has_the_rate_limit_headers() {
    let service = limited(100, 1_000).await;
    for (path, status) in [
        ("/v1/account", 200),
        ("/v1/schedules/x", 404),
        ("/v1/nothing", 404),
        ("/v1/jobs?page=x", 400),
    ] {
        let answer = service.get(path).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.limits().0, "100", "{path}");
    }
    assert_eq!(service.get("/v1/account").await.limits(), ("100", "95", &*at(60)));
    let unknown = service.bare("GET", "/v1/account").send().await;
    assert_eq!((unknown.status, unknown.limits()), (401, ("100", "99", &*at(60))));
    let wrong_method = service.call("DELETE", "/v1/account").send().await;
    assert_eq!((wrong_method.status, wrong_method.limits().1), (405, "94"));
    let outside = service.get("/openapi.json").await;
    assert_eq!((outside.status, outside.limits().0), (200, ""));
}

#[tokio::test]
async fn an_exhausted_window_refuses_and_names_its_end() {
    let service = limited(3, 100).await;
    for remaining in ["2", "1", "0"] {
        assert_eq!(service.get("/v1/account").await.limits().1, remaining);
    }
    service.advance(20);
    for _ in 0..2 {
        let refused = service.get("/v1/account").await;
        refused.refused(429, "RATE_LIMIT_EXCEEDED", "Rate limit exceeded");
        let details = json!({ "limit": 3, "window": "minute", "resetAt": at(60) });
        assert_eq!(refused.body["error"]["details"], details);
        assert_eq!(refused.header("retry-after"), "40");
        assert_eq!(refused.limits(), ("3", "0", &*at(60)));
    }
    service.advance(40);
    assert_eq!(service.get("/v1/account").await.limits(), ("3", "2", &*at(120)));
}

#[tokio::test]
async fn the_window_nearer_to_exhaustion_is_shown_and_a_refused_call_uses_up_nothing() {
    let service = limited(4, 6).await;
    assert_eq!(service.get("/v1/account").await.limits().0, "4");
    for _ in 0..3 {
        service.get("/v1/account").await.ok();
    }
    for _ in 0..5 {
        assert_eq!(service.get("/v1/account").await.status, 429);
    }
    service.advance(60);
    let answer = service.get("/v1/account").await;
    assert_eq!(answer.limits(), ("6", "1", &*at(3_600)), "the refused ones were not counted");
    service.get("/v1/account").await.ok();
    let refused = service.get("/v1/account").await;
    assert_eq!(refused.body["error"]["details"]["window"], "hour");
    assert_eq!(refused.header("retry-after"), "3540");
}

#[tokio::test]
async fn keys_are_counted_apart_and_addresses_too() {
    let service = limited(2, 100).await;
    let other = service.other_account_key().await;
    for _ in 0..2 {
        service.get("/v1/account").await.ok();
        service.bare("GET", "/v1/account").key(&other).from(2).send().await.ok();
    }
    assert_eq!(service.call("GET", "/v1/account").from(77).send().await.status, 429);
    for _ in 0..2 {
        assert_eq!(service.bare("GET", "/v1/account").send().await.status, 401);
    }
    let spoofed = service.bare("GET", "/v1/account").header("X-Forwarded-For", "198.51.100.7");
    spoofed.send().await.refused(429, "RATE_LIMIT_EXCEEDED", "Rate limit exceeded");
    assert_eq!(service.bare("GET", "/v1/account").from(3).send().await.status, 401);
}

/// The contract gives each key two windows.
#[tokio::test]
async fn each_key_of_an_account_has_windows_of_its_own() {
    let service = limited(2, 3).await;
    let other = service.read_key().await;
    let left = async |key: &str| {
        let answer = service.bare("GET", "/v1/account").key(key).send().await;
        (answer.status, answer.limits().1.to_owned())
    };
    for expected in [(200, "1"), (200, "0"), (429, "0")] {
        for key in [&service.key, &other] {
            let (status, remaining) = left(key).await;
            assert_eq!((status, &*remaining), expected);
        }
    }
}

#[tokio::test]
async fn odd_spellings_and_methods_count_like_all_others() {
    let odd = [
        ("GET", "/v1/schedules/"),
        ("GET", "//v1/schedules"),
        ("GET", "/v1//schedules"),
        ("GET", "/V1/schedules"),
        ("GET", "/v1"),
        ("GET", "/v1/SCHEDULES"),
        ("HEAD", "/v1/schedules"),
        ("OPTIONS", "/v1/schedules"),
        ("TRACE", "/v1/schedules"),
        ("BREW", "/v1/schedules"),
    ];
    let service = limited(odd.len().try_into().expect("few"), 1_000).await;
    for (index, (method, path)) in odd.into_iter().enumerate() {
        let answer = service.call(method, path).send().await;
        let remaining = (odd.len() - index - 1).to_string();
        assert_eq!(answer.limits().1, remaining, "{method} {path}");
        if answer.status != 200 {
            let code = if answer.status == 405 { "METHOD_NOT_ALLOWED" } else { "NOT_FOUND" };
            assert_eq!(answer.body["error"]["code"], code, "{method} {path}");
        }
    }
    assert_eq!(service.call("HEAD", "/v1/schedules").send().await.status, 429);
}

#[tokio::test]
async fn limits_can_be_switched_off() {
    let service = limited(0, 0).await;
    for _ in 0..3 {
        assert_eq!(service.get("/v1/account").await.limits(), ("", "", ""));
    }
    assert_eq!(service.bare("GET", "/v1/account").send().await.limits(), ("", "", ""));
    let hourly = limited(0, 1).await;
    assert_eq!(hourly.get("/v1/account").await.limits(), ("1", "0", &*at(3_600)));
    assert_eq!(hourly.get("/v1/account").await.status, 429);
}
