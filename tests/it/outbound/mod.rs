//! The egress guard, seen from the wire.
//!
//! `127.0.0.2` stands for the public Internet: it is the one address allowed. `127.0.0.1` stands
//! for what must not be reached.

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
use punctual::outbound::{Client, Request, Settings};
use punctual::runtime::{Clock, Tasks};

/// The address that may be called, with a free port.
const ALLOWED: &str = "127.0.0.2:0";
/// The address that may not.
const FORBIDDEN: &str = "127.0.0.1:0";
/// A limit that a healthy exchange stays far below.
const AMPLE: Duration = Duration::from_secs(20);

/// A client and what keeps it going.
struct Caller {
    client: Client,
    _tasks: Tasks,
}

impl Caller {
    /// A caller that may only call 127.0.0.2.
    fn new() -> Self {
        Self::with(Settings::default())
    }

    /// The same, asking a name server of the test.
    fn asking(dns: SocketAddr) -> Self {
        Self::with(Settings { dns_servers: vec![dns], ..Settings::default() })
    }

    /// The same, with other settings.
    fn with(settings: Settings) -> Self {
        let allow = vec!["127.0.0.2/32".parse().expect("a network")];
        Self::strictly(Settings { allow, ..settings })
    }

    /// A caller with exactly these settings.
    fn strictly(settings: Settings) -> Self {
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

/// The response of an exchange that has one.
#[track_caller]
fn response(exchange: Exchange) -> Response {
    exchange.result.expect("a response")
}

/// The failure of an exchange, which must be of this class, retryable or not, and name nothing
/// that could be secret.
#[track_caller]
fn failure(exchange: Exchange, code: ErrorCode, retryable: bool) -> Failure {
    let failure = exchange.result.expect_err("a failure");
    assert_eq!((failure.code, failure.retryable), (code, retryable), "{failure:?}");
    for secret in ["127.", "::", "http:", "https:", "s3cret", "os error 111"] {
        assert!(!failure.message.contains(secret), "{failure:?}");
    }
    failure
}
