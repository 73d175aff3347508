//! The egress guard, tested on the wire.
//!
//! `127.0.0.2` stands for the public Internet and is the only allowed address. `127.0.0.1` stands
//! for internal addresses.

mod connections;
mod corpus;
mod names;
mod proxy;
mod responses;
mod tls;
mod wire;

use std::net::SocketAddr;
use std::time::Duration;

use http::{HeaderMap, Method};
use punctual::domain::AccountId;
use punctual::domain::outcome::{ErrorCode, Exchange, Failure, Response};
use punctual::outbound::{Client, OutboundSettings, Request};
use punctual::runtime::{Clock, Tasks};

/// The allowed address, with a free port.
const ALLOWED: &str = "127.0.0.2:0";
/// A forbidden address, with a free port.
const FORBIDDEN: &str = "127.0.0.1:0";
/// A timeout that a healthy exchange never reaches.
const AMPLE: Duration = Duration::from_secs(20);

/// A client and its background tasks.
struct Caller {
    client: Client,
    _tasks: Tasks,
}

impl Caller {
    /// Creates a caller that may only call 127.0.0.2.
    fn new() -> Self {
        Self::with(OutboundSettings::default())
    }

    /// Creates such a caller with a name server of the test.
    fn asking(dns: SocketAddr) -> Self {
        Self::with(OutboundSettings { dns_servers: vec![dns], ..OutboundSettings::default() })
    }

    /// Creates such a caller with other settings.
    fn with(settings: OutboundSettings) -> Self {
        let allow = vec!["127.0.0.2/32".parse().expect("a network")];
        Self::strictly(OutboundSettings { allow, ..settings })
    }

    /// Creates a caller with exactly these settings.
    fn strictly(settings: OutboundSettings) -> Self {
        let tasks = Tasks::new();
        let client = Client::new(settings, Clock::system(), &tasks).expect("sound settings");
        Self { client, _tasks: tasks }
    }

    async fn get(&self, url: &str) -> Exchange {
        self.send(get(url), AMPLE).await
    }

    async fn send(&self, request: Request, timeout: Duration) -> Exchange {
        self.client.send(account(1), request, timeout).await
    }
}

fn account(number: u8) -> AccountId {
    AccountId::from_bytes([number; 16])
}

fn get(url: &str) -> Request {
    Request { method: Method::GET, url: url.to_owned(), headers: HeaderMap::new(), body: None }
}

fn post(url: &str, body: &'static str) -> Request {
    Request { method: Method::POST, body: Some(body.into()), ..get(url) }
}

/// Returns the response of an exchange that must have one.
#[track_caller]
fn response(exchange: Exchange) -> Response {
    exchange.result.expect("a response")
}

/// Returns the failure of an exchange. It must have this code and this `retryable`, and its message
/// must contain no possible secret.
#[track_caller]
fn failure(exchange: Exchange, code: ErrorCode, retryable: bool) -> Failure {
    let failure = exchange.result.expect_err("a failure");
    assert_eq!((failure.code, failure.retryable), (code, retryable), "{failure:?}");
    for secret in ["127.", "::", "http:", "https:", "s3cret", "os error 111"] {
        assert!(!failure.message.contains(secret), "{failure:?}");
    }
    failure
}
