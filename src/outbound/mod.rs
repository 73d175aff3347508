//! The egress guard: the single HTTP client for all outgoing calls of the service.
//!
//! Users supply the URLs and may be curious, careless or hostile, and this machine runs inside the
//! operator's network. Every request therefore takes the same path:
//!
//! 1. [`Client::check`] parses the URL. `policy` checks the port and a literal address in any
//!    notation. The check runs when the URL is saved and again before every request, because the
//!    HTTP library does not call the resolver for literal addresses.
//! 2. `clients` caches one client of the library per account and origin, so connections are never
//!    shared between accounts or origins. A client follows no redirects, ignores proxy settings in
//!    the environment, stores no cookies, does not decompress and does not retry.
//! 3. `resolver` looks up all addresses of a name and checks each of them; one blocked address
//!    blocks the name. Only the checked addresses are dialled, so DNS rebinding has no effect.
//!    `connector` limits the connect time, and `tls` defines the trusted authorities.
//! 4. `response` stores the first 64 KiB of the body and stops reading at 1 MiB.
//!
//! The service's own account is the only exception: it may call one internal endpoint and nothing
//! else, see `exception`.
//!
//! One deadline covers everything from the lookup to the last byte. Within an attempt, a request is
//! written again only if no byte of it was written before, which can happen when a server closes an
//! idle connection. Otherwise this module never retries. It never logs a URL and never panics on
//! remote input. Every failure is a [`Failure`] with one sentence that contains no address and no
//! secret. Dropping the future of [`Client::send`] closes its connection.

mod address;
mod clients;
mod connector;
mod definition;
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

pub use self::definition::content_type;
pub use self::exception::EgressException;
pub use self::failure::invalid_definition;

use self::clients::{ClientKey, Clients, longest_idle};
use self::policy::Policy;
use self::resolver::Resolver;
use self::trace::{TRACE, Trace, millis};
use crate::domain::AccountId;
use crate::domain::endpoint::{Endpoint, InvalidUrl};
use crate::domain::outcome::{Exchange, Failure, Response};
use crate::runtime::{Clock, Tasks};

/// The operator's settings for outgoing calls.
#[derive(Clone, Debug)]
pub struct OutboundSettings {
    /// Networks that may be called on any port although they are not public.
    pub allow: Vec<IpNet>,
    /// Ports that are never called, because they belong to services other than web servers.
    pub deny_ports: Vec<u16>,
    /// The name servers to ask; if empty, the system's name servers.
    pub dns_servers: Vec<SocketAddr>,
    /// Certificate authorities that are trusted in addition to the public ones. Each item is a PEM
    /// text with one or more certificates.
    pub ca_certificates: Vec<String>,
    /// The maximum number of pairs of account and origin for which connections are kept.
    pub max_origins: usize,
    /// The one internal endpoint that one account may call, instead of everything else.
    pub exception: Option<EgressException>,
}

impl Default for OutboundSettings {
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

/// The errors of [`Client::new`].
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// An additional certificate authority cannot be used.
    #[error("CA certificate {number} cannot be used: {reason}")]
    CaCertificate {
        /// The position of the certificate in the settings, from 1.
        number: usize,
        /// The reason.
        reason: String,
    },
    /// TLS could not be set up.
    #[error("TLS could not be set up: {0}")]
    Tls(#[source] rustls::Error),
    /// The name resolver could not be set up.
    #[error("the name resolver could not be set up: {0}")]
    Resolver(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The reason why a URL must not be called. The texts are part of the API contract.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RefusedUrl {
    /// The text is not an absolute `http` or `https` URL.
    #[error("Must be a valid URL")]
    Invalid,
    /// The address is not public and the operator did not allow it.
    #[error("URL resolves to a disallowed address")]
    DisallowedAddress,
    /// The port belongs to an infrastructure service.
    #[error("URL uses a disallowed port")]
    DisallowedPort,
}

impl From<InvalidUrl> for RefusedUrl {
    fn from(_: InvalidUrl) -> Self {
        Self::Invalid
    }
}

/// A URL that passed all checks that need no name resolution.
#[derive(Clone, Debug)]
pub struct Target(Endpoint);

impl Target {
    /// Returns the host in lower case, with the port unless it is the scheme's default.
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
    /// The headers. Framing and connection headers are dropped; `User-Agent` and
    /// `Accept-Encoding: identity` are added if absent.
    pub headers: HeaderMap,
    /// The body.
    pub body: Option<Bytes>,
}

/// The guarded HTTP client. All clones share one set of connections.
#[derive(Clone)]
pub struct Client(Arc<ClientInner>);

struct ClientInner {
    clock: Clock,
    policy: Arc<Policy>,
    exception: Option<EgressException>,
    clients: Clients,
}

impl Client {
    /// Creates a client with these settings and starts its upkeep worker in `tasks`.
    ///
    /// # Errors
    /// If a certificate authority cannot be parsed, or TLS or the resolver cannot be set up.
    pub fn new(
        settings: OutboundSettings,
        clock: Clock,
        tasks: &Tasks,
    ) -> Result<Self, SetupError> {
        let tls = tls::config(&settings.ca_certificates)?;
        let policy = Arc::new(Policy::new(settings.allow, settings.deny_ports));
        let resolver = Resolver::new(&settings.dns_servers, policy.clone(), clock.clone())
            .map_err(|error| SetupError::Resolver(Box::new(error)))?;
        let clients = Clients::new(clock.clone(), resolver, tls, settings.max_origins);
        let inner = Arc::new(ClientInner { clock, policy, exception: settings.exception, clients });
        upkeep::start(&inner, tasks);
        Ok(Self(inner))
    }

    /// Checks a URL from a user without any I/O. The addresses of a host name are checked only when
    /// the name is called.
    pub fn check(&self, url: &str) -> Result<Target, RefusedUrl> {
        let endpoint = Endpoint::parse(url)?;
        self.0.policy.check(&endpoint)?;
        Ok(Target(endpoint))
    }

    /// Sends a request for an account and waits for the whole response. `timeout` covers DNS
    /// lookup, connect, TLS handshake, sending, and reading the response to its last byte.
    pub async fn send(&self, account: AccountId, request: Request, timeout: Duration) -> Exchange {
        self.send_while(account, request, timeout, || true).await
    }

    /// Sends a request like [`send`](Self::send), but does not write it to a new connection once
    /// `may_send` returns `false`. Opening a connection takes seconds at most, but a process that
    /// is paused meanwhile goes on after any time, when the claim behind the request may be another
    /// executor's.
    pub async fn send_while(
        &self,
        account: AccountId,
        request: Request,
        timeout: Duration,
        may_send: impl Fn() -> bool + Send + 'static,
    ) -> Exchange {
        let clock = &self.0.clock;
        let started = clock.monotonic();
        let attempt = self.attempt(account, request);
        let mut attempt = pin!(TRACE.scope(Trace::new(started, timeout, may_send), attempt));
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

    /// Sends the request. The caller enforces the deadline and owns the trace.
    async fn attempt(&self, account: AccountId, request: Request) -> Result<Response, Failure> {
        let ClientInner { clock, clients, .. } = &*self.0;
        let target = match &self.0.exception {
            Some(exception) if exception.account == account => exception.target(&request.url),
            _ => self.check(&request.url),
        };
        let Target(endpoint) = target.map_err(failure::refused)?;
        let key = ClientKey::new(account, &endpoint);
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
