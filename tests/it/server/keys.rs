//! API keys over a socket (S14).

use punctual::runtime::ServeLimits;

use super::start;
use crate::api::harness::Service;

#[tokio::test]
async fn blanks_around_a_key_are_ignored_and_all_else_is_part_of_it() {
    let service = Service::start().await;
    let served = start(service.router.clone(), ServeLimits::default()).await;
    let key = &service.key;
    let long = "x".repeat(10_000);
    let works = "200";
    for (shown, answer) in [
        (format!("x-api-key: {key}"), works),
        (format!("x-api-key: {key} "), works),
        (format!("x-api-key: {key}\t  \t"), works),
        (format!("X-API-KEY:   {key}"), works),
        (format!("x-api-key: {key} x"), "INVALID_API_KEY"),
        (format!("x-api-key: {key},"), "INVALID_API_KEY"),
        (format!("x-api-key: {key}\r\nx-api-key: {key}"), "INVALID_API_KEY"),
        (format!("x-api-key: {long}"), "INVALID_API_KEY"),
        (format!("x-api-key: \u{e9}{key}"), "INVALID_API_KEY"),
        ("x-api-key:".to_owned(), "MISSING_API_KEY"),
        ("x-api-key:  \t ".to_owned(), "MISSING_API_KEY"),
        (format!("authorization: Bearer {key}"), "MISSING_API_KEY"),
    ] {
        let request =
            format!("GET /v1/account HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{shown}\r\n\r\n");
        let said = super::rest(&mut served.send(&request).await).await;
        let status = if answer == works { "200" } else { "401" };
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{shown}: {said}");
        assert!(answer == works || said.contains(answer), "{shown}: {said}");
    }
}
