//! TLS: the servers that the client trusts, and the errors for others (S37, F57).

use std::time::{Duration, Instant};

use punctual::domain::outcome::{ErrorCode, Exchange};
use punctual::outbound::OutboundSettings;
use rustls::ServerConfig;

use super::{ALLOWED, Caller, failure, get, response};
use crate::harness::certificates::{Authority, self_signed_server};
use crate::harness::dns::{Answer, Dns};
use crate::harness::target::{Peer, Target};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

async fn serve(mut peer: Peer) -> std::io::Result<()> {
    loop {
        peer.request().await?;
        peer.write(OK).await?;
    }
}

/// Calls `name` at a server with `config`. The client trusts `authority`.
async fn call(authority: &Authority, config: ServerConfig, name: &str) -> Exchange {
    let target = Target::start_tls(ALLOWED, config, serve).await;
    let dns = Dns::start().await;
    dns.script(name, [Answer::addresses(&["127.0.0.2"], 60)]);
    let caller = Caller::with(OutboundSettings {
        dns_servers: vec![dns.address()],
        ca_certificates: vec![authority.pem()],
        ..OutboundSettings::default()
    });
    let exchange = caller.get(&format!("https://{name}:{}/?s3cret", target.port())).await;
    assert_eq!(target.requests().len(), usize::from(exchange.result.is_ok()));
    exchange
}

#[tokio::test]
async fn a_valid_certificate_is_accepted() {
    let authority = Authority::new("Trusted");
    let exchange = call(&authority, authority.server(&["good.test"]), "good.test").await;
    assert!(exchange.timings.connect_ms.is_some());
    assert_eq!(response(exchange).body, b"ok");
    let by_address = authority.server(&["127.0.0.2"]);
    let target = Target::start_tls(ALLOWED, by_address, serve).await;
    let caller = Caller::with(OutboundSettings {
        ca_certificates: vec![authority.pem()],
        ..OutboundSettings::default()
    });
    for reused in [false, true] {
        let exchange = caller.get(&format!("https://{}/", target.address())).await;
        assert_eq!(exchange.timings.connect_ms.is_none(), reused);
        response(exchange);
    }
}

#[tokio::test]
async fn an_invalid_certificate_is_a_final_failure_with_its_reason() {
    let authority = Authority::new("Trusted");
    let stranger = Authority::new("Stranger");
    for (config, words) in [
        (authority.expired_server(&["bad.test"]), "has expired"),
        (authority.early_server(&["bad.test"]), "not valid yet"),
        (authority.server(&["other.test"]), "for another name"),
        (authority.server(&["127.0.0.2"]), "for another name"),
        (stranger.server(&["bad.test"]), "trusted authority"),
        (self_signed_server(&["bad.test"]), "trusted authority"),
    ] {
        let exchange = call(&authority, config, "bad.test").await;
        let failure = failure(exchange, ErrorCode::Tls, false);
        assert!(failure.message.contains(words), "{failure:?}");
    }
}

#[tokio::test]
async fn a_failed_handshake_may_succeed_another_time() {
    let caller = Caller::new();
    let speaking = Target::start(ALLOWED, |mut peer: Peer| async move {
        peer.write("HTTP/1.1 400 Bad Request\r\n\r\n").await?;
        peer.hang().await
    });
    let closing = Target::start(ALLOWED, |_peer: Peer| async move { Ok(()) });
    let resetting = Target::start(ALLOWED, |peer: Peer| async move { peer.reset() });
    let alerting = Target::start(ALLOWED, |mut peer: Peer| async move {
        // A fatal handshake_failure alert.
        peer.write([21, 3, 3, 0, 2, 2, 40]).await?;
        peer.hang().await
    });
    for target in [speaking.await, closing.await, resetting.await, alerting.await] {
        let exchange = caller.get(&format!("https://{}/", target.address())).await;
        failure(exchange, ErrorCode::Tls, true);
    }
}

#[tokio::test]
async fn a_stalled_handshake_is_cut_before_the_deadline() {
    let target = Target::start(ALLOWED, |mut peer: Peer| async move { peer.hang().await }).await;
    // The handshake may take three quarters of this time.
    let timeout = Duration::from_secs(4);
    let started = Instant::now();
    let url = format!("https://{}/", target.address());
    let exchange = Caller::new().send(get(&url), timeout).await;
    assert!(started.elapsed() < timeout, "{exchange:?}");
    let failure = failure(exchange, ErrorCode::Tls, true);
    let words = "the TLS handshake was not completed within 2.";
    assert!(failure.message.starts_with(words), "{failure:?}");
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_handshake_is_a_network_error() {
    let authority = Authority::new("Trusted");
    let config = authority.server(&["127.0.0.2"]);
    let target = Target::start_tls(ALLOWED, config, |mut peer: Peer| async move {
        peer.request().await?;
        peer.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort").await
    })
    .await;
    let caller = Caller::with(OutboundSettings {
        ca_certificates: vec![authority.pem()],
        ..OutboundSettings::default()
    });
    let exchange = caller.get(&format!("https://{}/", target.address())).await;
    failure(exchange, ErrorCode::Network, true);
}

#[tokio::test]
async fn plain_http_on_a_tls_port_is_no_response() {
    let authority = Authority::new("Trusted");
    let target = Target::start_tls(ALLOWED, authority.server(&["127.0.0.2"]), serve).await;
    let exchange = Caller::new().get(&target.url("/")).await;
    failure(exchange, ErrorCode::Network, true);
}
