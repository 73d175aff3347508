//! Host names: the answers of name servers, and their effects (S01, F56).

use std::net::IpAddr;
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use punctual::domain::outcome::ErrorCode;
use punctual::outbound::OutboundSettings;

use super::{ALLOWED, AMPLE, Caller, FORBIDDEN, account, failure, get, response};
use crate::harness::dns::{Answer, Dns};
use crate::harness::target::Target;

const CLOSING: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn a_name_is_resolved_and_its_server_called_by_that_name() {
    let target = Target::answering(ALLOWED, CLOSING).await;
    let dns = Dns::start().await;
    dns.script("public.test", [Answer::addresses(&["127.0.0.2"], 60)]);
    let caller = Caller::asking(dns.address());
    let url = format!("http://Public.TEST.:{}/path?q=1", target.port());
    let exchange = caller.get(&url).await;
    assert!(exchange.timings.dns_ms.is_some() && exchange.timings.connect_ms.is_some());
    assert_eq!(response(exchange).body, b"ok");
    let request = &target.requests()[0];
    assert!(request.text().starts_with("GET /path?q=1 HTTP/1.1\r\n"), "{}", request.text());
    assert_eq!(request.header("host"), [format!("public.test:{}", target.port())]);

    let again = caller.get(&url).await;
    assert_eq!(response(again).status, 200);
    assert_eq!(dns.asked("public.test"), 1, "an answer is kept for its TTL");
}

/// A name that resolves to a public address for the check, and to an internal one for the
/// connection or the next request.
#[tokio::test]
async fn rebinding_never_reaches_the_inside() {
    let public = Target::answering(ALLOWED, CLOSING).await;
    let inside = Target::answering(&format!("127.0.0.1:{}", public.port()), CLOSING).await;
    let dns = Dns::start().await;
    let caller = Caller::asking(dns.address());
    let answers = [Answer::addresses(&["127.0.0.2"], 0), Answer::addresses(&["127.0.0.1"], 0)];
    for round in 0..500 {
        let name = format!("rebind{round}.test");
        dns.script(&name, answers.clone());
        let url = format!("http://{name}:{}/", public.port());
        assert_eq!(response(caller.get(&url).await).status, 200);
        failure(caller.get(&url).await, ErrorCode::BlockedAddress, false);
        assert_eq!(
            dns.asked(&name),
            2,
            "each answer is checked, and no name is resolved twice for one request"
        );
    }
    assert_eq!((public.connections(), inside.connections()), (500, 0));
}

#[tokio::test]
async fn one_inside_address_condemns_a_name() {
    let public = Target::answering(ALLOWED, CLOSING).await;
    let inside = Target::answering(&format!("127.0.0.1:{}", public.port()), CLOSING).await;
    let dns = Dns::start().await;
    for (name, addresses) in [
        ("a.test", ["127.0.0.2", "127.0.0.1"]),
        ("b.test", ["127.0.0.1", "127.0.0.2"]),
        ("c.test", ["127.0.0.2", "::1"]),
        ("d.test", ["127.0.0.2", "64:ff9b::808:808"]),
    ] {
        dns.script(name, [Answer::addresses(&addresses, 60)]);
        let url = format!("http://{name}:{}/", public.port());
        let caller = Caller::asking(dns.address());
        let blocked = failure(caller.get(&url).await, ErrorCode::BlockedAddress, false);
        assert_eq!(blocked.message, "URL resolves to a disallowed address");
    }
    assert_eq!((public.connections(), inside.connections()), (0, 0));
}

#[tokio::test]
async fn an_alias_is_judged_by_where_it_leads() {
    let public = Target::answering(ALLOWED, CLOSING).await;
    let dns = Dns::start().await;
    let alias = |name, address| {
        let end = Answer::Alias(name, Box::new(Answer::addresses(&[address], 60)));
        [Answer::Alias("step.test", Box::new(end))]
    };
    dns.script("outside.test", alias("end.test", "127.0.0.2"));
    dns.script("inside.test", alias("redis.svc.test", "127.0.0.1"));
    let caller = Caller::asking(dns.address());
    let port = public.port();
    assert_eq!(response(caller.get(&format!("http://outside.test:{port}/")).await).status, 200);
    let exchange = caller.get(&format!("http://inside.test:{port}/")).await;
    failure(exchange, ErrorCode::BlockedAddress, false);
}

#[tokio::test]
async fn a_dead_address_gives_way_to_the_next() {
    let target = Target::answering(ALLOWED, CLOSING).await;
    let dns = Dns::start().await;
    dns.script("some.test", [Answer::addresses(&["127.0.0.3", "127.0.0.2"], 60)]);
    let allow = vec!["127.0.0.2/31".parse().expect("a network")];
    let caller = Caller::strictly(OutboundSettings {
        allow,
        dns_servers: vec![dns.address()],
        ..OutboundSettings::default()
    });
    let exchange = caller.get(&format!("http://some.test:{}/", target.port())).await;
    assert_eq!(response(exchange).status, 200);
}

#[tokio::test]
async fn names_that_lead_nowhere_say_so() {
    let dns = Dns::start().await;
    dns.script("empty.test", [Answer::addresses(&[], 60)]);
    dns.script("broken.test", [Answer::Code(ResponseCode::ServFail)]);
    dns.script("refused.test", [Answer::Code(ResponseCode::Refused)]);
    let caller = Caller::asking(dns.address());
    for (name, words) in [
        ("missing.test", "does not exist"),
        ("empty.test", "has no address"),
        ("broken.test", "could not be resolved"),
        ("refused.test", "could not be resolved"),
    ] {
        let exchange = caller.get(&format!("http://{name}/?s3cret")).await;
        assert!(exchange.timings.dns_ms.is_some() && exchange.timings.connect_ms.is_none());
        let failure = failure(exchange, ErrorCode::Dns, true);
        assert!(failure.message.contains(words), "{name}: {failure:?}");
    }
}

#[tokio::test]
async fn reserved_names_are_not_resolved() {
    let dns = Dns::start().await;
    dns.script("x.invalid", [Answer::addresses(&["127.0.0.2"], 60)]);
    dns.script("x.localhost", [Answer::addresses(&["127.0.0.2"], 60)]);
    let caller = Caller::asking(dns.address());
    failure(caller.get("http://x.invalid/").await, ErrorCode::Dns, true);
    failure(caller.get("http://x.localhost/").await, ErrorCode::BlockedAddress, false);
    assert_eq!((dns.asked("x.invalid"), dns.asked("x.localhost")), (0, 0));

    let target = Target::answering(FORBIDDEN, CLOSING).await;
    let allow = vec!["127.0.0.1/32".parse().expect("a network")];
    let caller = Caller::strictly(OutboundSettings {
        allow,
        dns_servers: vec![dns.address()],
        ..OutboundSettings::default()
    });
    let exchange = caller.get(&format!("http://x.localhost:{}/", target.port())).await;
    assert_eq!(response(exchange).status, 200, "loopback is allowed here");
    assert_eq!(dns.asked("x.localhost"), 0);
}

#[tokio::test]
async fn a_slow_name_server_is_given_half_of_the_time() {
    let target = Target::answering(ALLOWED, CLOSING).await;
    let dns = Dns::start().await;
    let address = Answer::addresses(&["127.0.0.2"], 60);
    let late = |ms| Answer::Late(Duration::from_millis(ms), Box::new(address.clone()));
    dns.script("silent.test", [Answer::Silence]);
    dns.script("slow.test", [late(30_000)]);
    dns.script("late.test", [late(300)]);
    let caller = Caller::asking(dns.address());
    let timeout = Duration::from_secs(4);
    let calls = ["silent.test", "slow.test"].map(async |name| {
        let started = Instant::now();
        let exchange = caller.send(get(&format!("http://{name}/")), timeout).await;
        let spent = started.elapsed();
        assert!((timeout / 2..timeout).contains(&spent), "{name}: {spent:?}");
        let failure = failure(exchange, ErrorCode::Dns, true);
        assert!(failure.message.contains("within 2 s"), "{failure:?}");
    });
    futures_util::future::join_all(calls).await;
    let exchange = caller.get(&format!("http://late.test:{}/", target.port())).await;
    let (dns, connect) = (exchange.timings.dns_ms, exchange.timings.connect_ms);
    assert!(dns >= Some(300) && connect.is_some(), "{exchange:?}");
    // The time to connect does not include the lookup.
    assert!(dns.zip(connect).map(|(dns, connect)| dns + connect) <= Some(exchange.duration_ms));
    assert_eq!(response(exchange).status, 200);
}

#[tokio::test]
async fn a_lost_question_is_put_again() {
    let target = Target::answering(ALLOWED, CLOSING).await;
    let dns = Dns::start().await;
    let address = Answer::addresses(&["127.0.0.2"], 60);
    dns.script("lossy.test", [Answer::Silence, address]);
    let caller = Caller::asking(dns.address());
    let exchange = caller.get(&format!("http://lossy.test:{}/", target.port())).await;
    assert_eq!(response(exchange).status, 200);
    assert_eq!(dns.asked("lossy.test"), 2);
}

#[tokio::test]
async fn many_lookups_at_once_all_come_to_an_end() {
    let target = Target::answering(ALLOWED, CLOSING).await;
    let dns = Dns::start().await;
    let caller = Caller::asking(dns.address());
    let urls: Vec<_> = (0..600)
        .map(|number| {
            let name = format!("many{number}.test");
            dns.script(&name, [Answer::addresses(&["127.0.0.2"], 60)]);
            format!("http://{name}:{}/", target.port())
        })
        .collect();
    let calls = urls.iter().map(|url| caller.client.send(account(2), get(url), AMPLE));
    for exchange in futures_util::future::join_all(calls).await {
        assert_eq!(response(exchange).status, 200);
    }
}

/// Name servers are asked for the names in the URL, without the suffixes of a search list.
#[tokio::test]
async fn a_name_is_taken_as_complete() {
    let dns = Dns::start().await;
    dns.script("redis", [Answer::addresses(&["127.0.0.2"], 60)]);
    let target = Target::answering(ALLOWED, CLOSING).await;
    let caller = Caller::asking(dns.address());
    let exchange = caller.get(&format!("http://redis:{}/", target.port())).await;
    assert_eq!(response(exchange).status, 200);
    let _: IpAddr = target.address().ip();
    assert_eq!(dns.asked("redis"), 1);
}
