//! The egress guard: the one HTTP client by which anything of the service calls out.
//!
//! URLs come from users, who may be curious, careless or hostile, and the machine stands inside
//! the operator's network. So every request goes one way:
//!
//! 1. [`Client::check`] reads the URL; `policy` judges a literal address, in whatever spelling,
//!    and the port. It is done when the URL is given and again before every request, because the
//!    HTTP library asks no resolver about literal addresses.
//! 2. `clients` has one client of the library for each account and origin, so that connections
//!    are reused no further. It follows no redirects, reads no proxies from the environment, keeps
//!    no cookies, decompresses nothing and repeats nothing.
//! 3. `resolver` asks for all addresses of a name and has each judged; one that is blocked
//!    condemns the name. Exactly the judged addresses are dialled, so a name that changes its
//!    answer in between gains nothing. `connector` limits how long connecting may take, `tls`
//!    says whom to trust.
//! 4. `response` keeps the first 64 KiB and stops reading at 1 MiB.
//!
//! The service's own account, and no other, calls something else instead: see `exception`.
//!
//! One deadline covers everything from the lookup to the last byte. Within an attempt a request
//! is written again only if no byte of it was written before, which can happen when a server
//! closes an idle connection. Nothing here retries otherwise, logs a URL, or panics on what comes
//! from outside; every failure is a [`Failure`] with one
//! sentence that names no address and no secret. Dropping the future of [`Client::send`] closes
//! its connection.

mod address;
mod clients;
mod connector;
mod exception;
mod failure;
mod policy;
mod request;
mod resolver;
mod response;
mod tls;
mod trace;
mod upkeep;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use ipnet::IpNet;

pub use self::exception::Exception;

use self::clients::{Clients, Key, longest_idle};
use self::policy::Policy;
use self::resolver::Resolver;
use self::trace::{TRACE, Trace, millis};
use crate::domain::AccountId;
use crate::domain::endpoint::{Endpoint, InvalidUrl};
use crate::domain::outcome::{Exchange, Failure, Response};
use crate::runtime::{Clock, Tasks};

/// What the operator decides about calls to the outside.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses that may be called although they are not public, on any port.
    pub allow: Vec<IpNet>,
    /// Ports that are never called, because what listens there is not a web server.
    pub deny_ports: Vec<u16>,
    /// The name servers to ask; none means the system's.
    pub dns_servers: Vec<SocketAddr>,
    /// Certificate authorities trusted beside the public ones: PEM texts, each of one or more.
    pub ca_certificates: Vec<String>,
    /// For how many pairs of account and origin connections are kept at once.
    pub max_origins: usize,
    /// What one account may call beside all this, and nothing else.
    pub exception: Option<Exception>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            deny_ports: vec![22, 25, 2379, 2380, 5432, 6379],
            dns_servers: Vec::new(),
            ca_certificates: Vec::new(),
            max_origins: 4_096,
            exception: None,
        }
    }
}

/// Why a client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// One of the extra certificate authorities cannot be used.
    #[error("CA certificate {number} cannot be used: {reason}")]
    CaCertificate {
        /// Which one, counted from 1.
        number: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// TLS could not be set up.
    #[error("TLS could not be set up: {0}")]
    Tls(#[source] rustls::Error),
    /// The name resolver could not be set up.
    #[error("the name resolver could not be set up: {0}")]
    Resolver(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Why a URL may not be called; the texts are the contract's.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RefusedUrl {
    /// It is not an absolute `http` or `https` URL.
    #[error("Must be a valid URL")]
    Invalid,
    /// Its address is not a public one, and the operator did not allow it.
    #[error("URL resolves to a disallowed address")]
    DisallowedAddress,
    /// Its port belongs to infrastructure.
    #[error("URL uses a disallowed port")]
    DisallowedPort,
}

impl From<InvalidUrl> for RefusedUrl {
    fn from(_: InvalidUrl) -> Self {
        Self::Invalid
    }
}

/// A URL that may be called, as far as can be told before its name is resolved.
#[derive(Clone, Debug)]
pub struct Target(Endpoint);

impl Target {
    /// The host in lower case, with its port if that is not the scheme's own.
    pub fn host(&self) -> &str {
        self.0.authority()
    }
}

/// A request to send.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The URL, as the user gave it.
    pub url: String,
    /// The headers. Those that frame the message or belong to the connection are left out;
    /// `User-Agent` and `Accept-Encoding: identity` are added where absent.
    pub headers: HeaderMap,
    /// The body.
    pub body: Option<Bytes>,
}

/// The guarded HTTP client. Clones share one set of connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    clock: Clock,
    policy: Arc<Policy>,
    exception: Option<Exception>,
    clients: Clients,
}

impl Client {
    /// A client by these settings; its upkeep runs among `tasks`.
    ///
    /// # Errors
    /// If a certificate authority cannot be read, or TLS or the resolver cannot be set up.
    pub fn new(settings: Settings, clock: Clock, tasks: &Tasks) -> Result<Self, SetupError> {
        let tls = tls::config(&settings.ca_certificates)?;
        let policy = Arc::new(Policy::new(settings.allow, settings.deny_ports));
        let resolver = Resolver::new(&settings.dns_servers, policy.clone(), clock.clone())
            .map_err(|error| SetupError::Resolver(Box::new(error)))?;
        let clients = Clients::new(clock.clone(), resolver, tls, settings.max_origins);
        let inner = Arc::new(Inner { clock, policy, exception: settings.exception, clients });
        upkeep::start(&inner, tasks);
        Ok(Self(inner))
    }

    /// Judges a URL that a user gives, without any input or output. A name is judged by its
    /// addresses only when it is called.
    pub fn check(&self, url: &str) -> Result<Target, RefusedUrl> {
        let endpoint = Endpoint::parse(url)?;
        self.0.policy.check(&endpoint)?;
        Ok(Target(endpoint))
    }

    /// Sends a request for an account and waits for the response, for `timeout` in all: resolve,
    /// connect, TLS, send, and the response to its last byte.
    pub async fn send(&self, account: AccountId, request: Request, timeout: Duration) -> Exchange {
        let clock = &self.0.clock;
        let started = clock.monotonic();
        let attempt = self.attempt(account, request);
        let mut attempt = pin!(TRACE.scope(Trace::new(started, timeout), attempt));
        let result = tokio::select! {
            biased;
            result = attempt.as_mut() => Some(result),
            () = clock.sleep(timeout) => None,
        };
        let trace = attempt.take_value().expect("only taken here");
        let result = result.unwrap_or_else(|| Err(failure::timed_out(timeout, trace.phase())));
        let duration_ms = millis(clock.monotonic().saturating_sub(started));
        Exchange { result, timings: trace.timings(), duration_ms }
    }

    /// Sends the request; the caller keeps the deadline and the trace.
    async fn attempt(&self, account: AccountId, request: Request) -> Result<Response, Failure> {
        let Inner { clock, clients, .. } = &*self.0;
        let target = match &self.0.exception {
            Some(exception) if exception.account == account => exception.target(&request.url),
            _ => self.check(&request.url),
        };
        let Target(endpoint) = target.map_err(failure::refused)?;
        let key = Key::new(account, &endpoint);
        let entry = clients.get(&key, clock.monotonic()).map_err(|error| failure::of(&error))?;
        let outgoing = request::outgoing(request, &endpoint);
        let answer = entry.client().execute(outgoing).await;
        let incoming = answer.map_err(|error| failure::of(&error))?;
        let answered = clock.monotonic();
        TRACE.with(|trace| trace.answered(answered));
        let longest_idle = longest_idle(incoming.headers());
        let received = response::receive(incoming).await;
        let read = clock.monotonic();
        TRACE.with(|trace| trace.read(read.saturating_sub(answered)));
        let response = received.map_err(|error| failure::of(&error))?;
        clients.used(key, &entry, longest_idle, read);
        Ok(response)
    }
}
