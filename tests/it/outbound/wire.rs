//! The bytes of requests, and redirects that are never followed (S03, S31–S33, S35, S36, F55).

use http::{HeaderMap, Method};
use punctual::domain::headers::parse_headers;
use punctual::domain::outcome::ErrorCode;
use punctual::outbound::Request;

use super::{ALLOWED, AMPLE, Caller, FORBIDDEN, failure, get, post, response};
use crate::harness::target::Target;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn a_request_is_framed_once_and_names_its_sender() {
    let target = Target::answering(ALLOWED, OK).await;
    let caller = Caller::new();
    response(caller.get(&target.url("/a%20b?x=%0d%0ay#fragment")).await);
    let request = &target.requests()[0];
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "GET /a%20b?x=%0d%0ay HTTP/1.1\r\nhost: {}\r\nuser-agent: Punctual/{version}\r\n\
         accept-encoding: identity\r\naccept: */*\r\n\r\n",
        target.address()
    );
    assert_eq!(request.text(), expected);
}

#[tokio::test]
async fn a_body_has_its_exact_length_and_an_absent_one_has_length_zero() {
    let target = Target::answering(ALLOWED, OK).await;
    let caller = Caller::new();
    response(caller.send(post(&target.url("/"), "0123456789"), AMPLE).await);
    let empty = Request { body: None, ..post(&target.url("/"), "") };
    response(caller.send(empty, AMPLE).await);
    response(caller.send(post(&target.url("/"), ""), AMPLE).await);
    let delete = Request { method: Method::DELETE, ..get(&target.url("/")) };
    response(caller.send(delete, AMPLE).await);
    let requests = target.requests();
    let lengths: Vec<_> = requests.iter().map(|request| request.header("content-length")).collect();
    assert_eq!(lengths, [vec!["10"], vec!["0"], vec!["0"], vec![]]);
    assert!(requests[0].text().ends_with("\r\n\r\n0123456789"));
    assert!(requests.iter().all(|request| request.header("transfer-encoding").is_empty()));
}

#[tokio::test]
async fn the_user_agent_of_the_user_wins() {
    let target = Target::answering(ALLOWED, OK).await;
    let headers =
        r#"{"User-Agent":"me","Accept-Encoding":"gzip","X-Api-Key":"s3cret","Accept":"a/b"}"#;
    let headers = parse_headers(headers).expect("valid");
    let request = Request { headers, ..get(&target.url("/")) };
    response(Caller::new().send(request, AMPLE).await);
    let request = &target.requests()[0];
    for (name, value) in [
        ("user-agent", "me"),
        ("accept-encoding", "gzip"),
        ("x-api-key", "s3cret"),
        ("accept", "a/b"),
    ] {
        assert_eq!(request.header(name), [value]);
    }
}

/// The API rejects such headers. If one reaches the client in any way, it is left out.
#[tokio::test]
async fn no_header_can_change_the_framing() {
    let target = Target::answering(ALLOWED, OK).await;
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("content-length", "5"),
        ("transfer-encoding", "chunked"),
        ("host", "elsewhere.test"),
        ("connection", "upgrade"),
        ("upgrade", "h2c"),
        ("expect", "100-continue"),
        ("te", "trailers"),
        ("proxy-authorization", "Basic x"),
        ("x-kept", "1"),
        ("x-kept", "2"),
    ] {
        headers.append(name, value.parse().expect("a value"));
    }
    let caller = Caller::new();
    let request = Request { headers, ..post(&target.url("/"), "0123456789") };
    response(caller.send(request, AMPLE).await);
    response(caller.get(&target.url("/next")).await);
    let [first, second] = &target.requests()[..] else { panic!("two requests, no smuggled one") };
    assert_eq!(first.header("content-length"), ["10"]);
    assert_eq!(first.header("host"), [target.address().to_string()]);
    assert_eq!(first.header("x-kept"), ["1", "2"]);
    for name in
        ["transfer-encoding", "connection", "upgrade", "expect", "te", "proxy-authorization"]
    {
        assert!(first.header(name).is_empty(), "{name}");
    }
    assert!(second.text().starts_with("GET /next "), "{}", second.text());
}

#[tokio::test]
async fn redirects_are_the_result_and_are_not_followed() {
    let inside = Target::answering(FORBIDDEN, OK).await;
    let elsewhere = Target::answering(ALLOWED, OK).await;
    let long = format!("http://{}@x.test/", "u".repeat(2_048));
    for location in [
        &inside.url("/"),
        &elsewhere.url("/"),
        &format!("//{}/", inside.address()),
        "/again",
        "file:///etc/passwd",
        &long,
    ] {
        for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"]
        {
            let answer =
                format!("HTTP/1.1 {status}\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
            let target = Target::answering(ALLOWED, answer).await;
            let headers = parse_headers(r#"{"X-Api-Key":"s3cret"}"#).expect("valid");
            let request = Request { headers, ..post(&target.url("/"), "body") };
            let response = response(Caller::new().send(request, AMPLE).await);
            assert_eq!(response.status.to_string(), status[..3]);
            let kept = response.headers.iter().find(|(name, _)| name == "location");
            assert_eq!(kept.map(|(_, value)| value.as_str()), Some(location));
            assert_eq!(target.requests().len(), 1);
        }
    }
    assert_eq!((inside.connections(), elsewhere.connections()), (0, 0));
}

#[tokio::test]
async fn cookies_are_not_kept_and_no_referer_is_sent() {
    let answer = "HTTP/1.1 200 OK\r\nSet-Cookie: id=1; Path=/\r\nContent-Length: 0\r\n\r\n";
    let target = Target::answering(ALLOWED, answer).await;
    let caller = Caller::new();
    for _ in 0..2 {
        response(caller.get(&target.url("/")).await);
    }
    let requests = target.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert!(request.header("cookie").is_empty() && request.header("referer").is_empty());
    }
}

#[tokio::test]
async fn nothing_is_decompressed() {
    // The first bytes of a gzip stream. Decoding them would fail or give other bytes.
    let compressed = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xff, 0xff, 0xff];
    for encoding in ["gzip", "br", "zstd", "deflate"] {
        let mut answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {}\r\n\r\n",
            compressed.len()
        )
        .into_bytes();
        answer.extend_from_slice(&compressed);
        let target = Target::answering(ALLOWED, answer).await;
        let response = response(Caller::new().get(&target.url("/")).await);
        assert_eq!(response.body, compressed);
        assert!(response.headers.contains(&("content-encoding".into(), encoding.into())));
    }
}

#[tokio::test]
async fn a_refused_url_fails_before_anything_is_sent() {
    let caller = Caller::new();
    let refused = failure(caller.get("http://10.0.0.1/").await, ErrorCode::BlockedAddress, false);
    assert_eq!(refused.message, "URL resolves to a disallowed address");
    let refused = failure(caller.get("http://8.8.8.8:22/").await, ErrorCode::BlockedAddress, false);
    assert_eq!(refused.message, "URL uses a disallowed port");
}
