//! URLs that must not reach internal addresses, however they are parsed (S02, S05, S06, S07).

use std::time::{Duration, Instant};

use punctual::domain::outcome::ErrorCode;
use punctual::outbound::{OutboundSettings, RefusedUrl};

use super::{AMPLE, Caller, FORBIDDEN, get};
use crate::harness::dns::{Answer, Dns};
use crate::harness::target::Target;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// Hosts that are 127.0.0.1 or a similar address, or are written to look like another one.
const HOSTS: &[&str] = &[
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "0",
    "0.0.0.0",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "017700000001",
    "0177.0.0.1",
    "0000177.0x0.0.1",
    "127.0.0.1.",
    "localhost",
    "LOCALHOST.",
    "foo.localhost",
    "[::1]",
    "[::]",
    "[::ffff:7f00:1]",
    "[::ffff:127.0.0.1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[::127.0.0.1]",
    "[::ffff:0:127.0.0.1]",
    "[fe80::1%25eth0]",
    "[::1%25lo]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "127.0.0.1%00.example.com",
    "①②⑦.⓪.⓪.①",
    "127。0。0。1",
    "１２７．０．０．１",
    "%31%32%37.0.0.1",
    "example.com@127.0.0.1",
    "user:pass@127.0.0.1",
    "@127.0.0.1",
    "example.com\\@127.0.0.1",
    "inside.test",
    "INSIDE.test.",
    "mixed.test",
    "alias.test",
    "mapped.test",
    "metadata.google.internal",
];

#[tokio::test]
async fn no_spelling_of_an_inside_url_reaches_the_inside() {
    let inside = Target::answering(FORBIDDEN, OK).await;
    let dns = Dns::start().await;
    dns.script("inside.test", [Answer::addresses(&["127.0.0.1"], 60)]);
    dns.script("mixed.test", [Answer::addresses(&["8.8.8.8", "127.0.0.1"], 60)]);
    dns.script("mapped.test", [Answer::addresses(&["::ffff:127.0.0.1"], 60)]);
    let redis = Answer::addresses(&["127.0.0.1"], 60);
    dns.script("alias.test", [Answer::Alias("redis.internal.test", Box::new(redis))]);
    let caller = Caller::strictly(OutboundSettings {
        dns_servers: vec![dns.address()],
        ..OutboundSettings::default()
    });

    let port = inside.port();
    let mut urls: Vec<_> = HOSTS.iter().map(|host| format!("http://{host}:{port}/")).collect();
    urls.extend(HOSTS.iter().map(|host| format!("https://{host}:{port}/latest/meta-data/")));
    urls.extend([
        format!("http://127.0.0.1:{port}#@example.com/"),
        format!("http://127.0.0.1:{port}?@example.com/"),
        format!(" http://127.0.0.1:{port}/"),
        format!("http://127.0.0.1:{port}/\r\nX: y"),
        format!("ht\ttp://127.0.0.1:{port}/"),
        format!("http:\\\\127.0.0.1:{port}\\"),
        format!("http:127.0.0.1:{port}/"),
        format!("HTTP://127.0.0.1:{port}/"),
        format!("gopher://127.0.0.1:{port}/_FLUSHALL"),
        format!("//127.0.0.1:{port}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://[fd00:ec2::254]/".to_owned(),
        "http://168.63.129.16/".to_owned(),
        "http://redis:6379/".to_owned(),
        "http://etcd:2379/v3/kv/range".to_owned(),
        "http://postgres:5432/".to_owned(),
        "http://8.8.8.8:22/".to_owned(),
        "http://8.8.8.8:25/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "ftp://x/".to_owned(),
        "data:,x".to_owned(),
        "unix:/x".to_owned(),
        "http://example.com:0/".to_owned(),
        "http://example.com:99999/".to_owned(),
        format!("http://example.com/{}", "a".repeat(8_192)),
    ]);
    for url in &urls {
        let started = Instant::now();
        let exchange = caller.send(get(url), AMPLE).await;
        let failure = exchange.result.expect_err(url);
        assert!(started.elapsed() < Duration::from_secs(5), "{url}: {failure:?}");
        assert!(!failure.message.contains("127.0.0.1"), "{url}: {failure:?}");
        let classes = [ErrorCode::BlockedAddress, ErrorCode::Internal, ErrorCode::Dns];
        assert!(classes.contains(&failure.code), "{url}: {failure:?}");
        assert_eq!(failure.retryable, failure.code == ErrorCode::Dns, "{url}: {failure:?}");
    }
    assert_eq!(inside.connections(), 0);
}

#[tokio::test]
async fn a_url_is_refused_at_once_with_the_message_of_the_contract() {
    let caller = Caller::strictly(OutboundSettings::default());
    let refused = |url: &str| caller.client.check(url).expect_err(url);
    assert_eq!(refused("http://0x7f.1/"), RefusedUrl::DisallowedAddress);
    assert_eq!(refused("http://a.localhost/"), RefusedUrl::DisallowedAddress);
    assert_eq!(refused("http://redis:6379/"), RefusedUrl::DisallowedPort);
    assert_eq!(refused("file:///etc/passwd"), RefusedUrl::Invalid);
    assert_eq!(refused("").to_string(), "Must be a valid URL");
    let address = RefusedUrl::DisallowedAddress.to_string();
    assert_eq!(address, "URL resolves to a disallowed address");
    assert_eq!(RefusedUrl::DisallowedPort.to_string(), "URL uses a disallowed port");

    let target = caller.client.check("HTTPS://Example.COM.:443/x").expect("a public name");
    assert_eq!(target.host(), "example.com");
    let target = caller.client.check("http://example.com:8080/").expect("a public name");
    assert_eq!(target.host(), "example.com:8080");
}

#[tokio::test]
async fn open_and_closed_ports_of_the_inside_look_the_same() {
    let inside = Target::answering(FORBIDDEN, OK).await;
    let caller = Caller::strictly(OutboundSettings::default());
    let open = caller.get(&inside.url("/")).await;
    let closed = caller.get("http://127.0.0.1:9/").await;
    let filtered = caller.get("http://10.255.255.1/").await;
    assert_eq!(open.result, closed.result);
    assert_eq!(open.result, filtered.result);
    for exchange in [open, closed, filtered] {
        assert!(exchange.duration_ms < 50, "refused before any connection: {exchange:?}");
        assert_eq!(exchange.timings, punctual::domain::outcome::Timings::default());
    }
    assert_eq!(inside.connections(), 0);
}
