//! A bounded cache of HTTP library clients, one per account and origin.
//!
//! A client owns its connection pool, so connections are reused only within one account and origin.
//! With wider sharing, a misbehaving server could send the response for one account's request to
//! another account. A client takes microseconds to build because the TLS configuration is shared.
//! It is evicted together with its idle connections soon after its last request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http::HeaderMap;
use quick_cache::sync::Cache;
use reqwest::dns::Resolve;
use reqwest::redirect::Policy as Redirects;
use rustls::ClientConfig;

use super::connector::{ConnectionLimit, MAX_CONNECT};
use super::resolver::Resolver;
use crate::domain::AccountId;
use crate::domain::endpoint::Endpoint;
use crate::runtime::Clock;

/// The maximum idle time of a connection. Most servers close idle connections after 5 s (Node) or
/// later.
const MAX_IDLE: Duration = Duration::from_secs(4);
/// The safety margin by which we stop using an idle connection before the server's timeout.
const MARGIN: Duration = Duration::from_secs(1);
/// The maximum lifetime of a client. Rebuilding the client picks up changed addresses of the name.
const MAX_LIFE: Duration = Duration::from_secs(300);

/// The key of a client: connections are shared only within one account and one origin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientKey {
    account: AccountId,
    https: bool,
    authority: Box<str>,
}

impl ClientKey {
    /// Returns the key for an account's requests to an endpoint.
    pub fn new(account: AccountId, endpoint: &Endpoint) -> Self {
        Self { account, https: endpoint.is_https(), authority: endpoint.authority().into() }
    }
}

/// Sends requests over connections of its own.
///
/// The trait hides the parts of the library's client. The compiler would check that they are `Send`
/// in each function that can reach a client.
#[async_trait]
pub trait RequestSender: Send + Sync {
    /// Sends a request, and returns the response as soon as its headers have arrived.
    async fn execute(&self, request: reqwest::Request) -> reqwest::Result<reqwest::Response>;
}

#[async_trait]
impl RequestSender for reqwest::Client {
    async fn execute(&self, request: reqwest::Request) -> reqwest::Result<reqwest::Response> {
        Self::execute(self, request).await
    }
}

/// One client and the idle timeout of its origin. Instants are on the monotonic clock.
pub struct ClientEntry {
    client: Box<dyn RequestSender>,
    built: Duration,
    longest_idle: Duration,
    used_ms: AtomicU64,
}

impl ClientEntry {
    /// Returns the client.
    pub fn client(&self) -> &dyn RequestSender {
        &*self.client
    }

    fn touch(&self, now: Duration) {
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.used_ms.store(now_ms, Ordering::Relaxed);
    }

    fn used(&self) -> Duration {
        Duration::from_millis(self.used_ms.load(Ordering::Relaxed))
    }
}

/// A cache of all clients, bounded in size.
pub struct Clients {
    clock: Clock,
    /// The [`Resolver`], whose type is hidden for the same reason as that of the clients.
    resolver: Arc<dyn Resolve>,
    tls: ClientConfig,
    entries: Cache<ClientKey, Arc<ClientEntry>>,
}

impl Clients {
    /// Creates an empty cache of at most `most` clients.
    pub fn new(clock: Clock, resolver: Resolver, tls: ClientConfig, most: usize) -> Self {
        Self { clock, resolver: Arc::new(resolver), tls, entries: Cache::new(most) }
    }

    /// Returns the client for `key`. Builds it if it is missing or older than `MAX_LIFE`.
    pub fn get(&self, key: &ClientKey, now: Duration) -> reqwest::Result<Arc<ClientEntry>> {
        let entry = self.entries.get_or_insert_with(key, || self.build(MAX_IDLE, now))?;
        let entry = if now.saturating_sub(entry.built) > MAX_LIFE {
            let rebuilt = self.build(entry.longest_idle, now)?;
            self.entries.insert(key.clone(), rebuilt.clone());
            rebuilt
        } else {
            entry
        };
        entry.touch(now);
        Ok(entry)
    }

    /// Records that a response was read over a client, and that its server keeps an idle connection
    /// for `longest_idle`. If that is shorter than the client's idle timeout, a client with the
    /// shorter timeout replaces it.
    pub fn used(&self, key: ClientKey, entry: &ClientEntry, longest_idle: Duration, now: Duration) {
        entry.touch(now);
        if longest_idle >= entry.longest_idle {
            return;
        }
        let known = self.entries.peek(&key);
        if known.is_none_or(|known| longest_idle < known.longest_idle) {
            match self.build(longest_idle, now) {
                Ok(rebuilt) => self.entries.insert(key, rebuilt),
                Err(_) => drop(self.entries.remove(&key)),
            }
        }
    }

    /// Evicts the clients that can no longer have an idle connection.
    pub fn prune(&self, now: Duration) {
        self.entries.retain(|_, entry| now.saturating_sub(entry.used()) <= MAX_IDLE);
    }

    fn build(&self, longest_idle: Duration, now: Duration) -> reqwest::Result<Arc<ClientEntry>> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(Redirects::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .http1_only()
            .tls_backend_preconfigured(self.tls.clone())
            .dns_resolver(self.resolver.clone())
            .connector_layer(ConnectionLimit { clock: self.clock.clone() })
            // The effective limit is the one in the connector layer. The library divides this
            // timeout among the addresses of a name, so a dead address leaves time for the next
            // one.
            .connect_timeout(MAX_CONNECT + MARGIN)
            .pool_idle_timeout(longest_idle)
            // Otherwise unlimited: the executor already limits the number of concurrent
            // connections.
            .pool_max_idle_per_host(if longest_idle.is_zero() { 0 } else { usize::MAX })
            .build()?;
        let used_ms = AtomicU64::new(0);
        let client = Box::new(client);
        let entry = Arc::new(ClientEntry { client, built: now, longest_idle, used_ms });
        entry.touch(now);
        Ok(entry)
    }
}

/// Returns the time that a connection may stay idle after a response with these headers.
pub fn longest_idle(headers: &HeaderMap) -> Duration {
    let parameters = headers.get("keep-alive").and_then(|value| value.to_str().ok());
    let timeout = parameters.into_iter().flat_map(|value| value.split(',')).find_map(|parameter| {
        let (name, seconds) = parameter.split_once('=')?;
        let seconds = seconds.trim().trim_matches('"').parse().ok()?;
        name.trim().eq_ignore_ascii_case("timeout").then(|| Duration::from_secs(seconds))
    });
    timeout.map_or(MAX_IDLE, |timeout| timeout.saturating_sub(MARGIN).min(MAX_IDLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_may_shorten_how_long_a_connection_is_kept() {
        for (value, longest_s) in [
            (None, 4),
            (Some("timeout=5"), 4),
            (Some("timeout=3, max=100"), 2),
            (Some("max=100,TIMEOUT = \"2\""), 1),
            (Some("timeout=1"), 0),
            (Some("timeout=0"), 0),
            (Some("timeout=99999999999999999999"), 4),
            (Some("timeout"), 4),
            (Some("timeout=-1"), 4),
        ] {
            let headers = value.map(|value| ("keep-alive", value));
            let headers = headers.into_iter().map(|(name, value)| {
                (name.parse().expect("a name"), value.parse().expect("a value"))
            });
            let longest = longest_idle(&headers.collect());
            assert_eq!(longest, Duration::from_secs(longest_s), "{value:?}");
        }
    }
}
