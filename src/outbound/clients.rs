//! The clients of the HTTP library, one for each account and origin.
//!
//! Connections live in a client, so that is how far they are shared. Sharing more would let the
//! answer to one account's request, if a server misbehaves, reach another account. A client costs
//! microseconds to build (the TLS configuration is shared) and is forgotten, its idle connections
//! with it, soon after its last request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::HeaderMap;
use quick_cache::sync::Cache;
use reqwest::redirect::Policy as Redirects;
use rustls::ClientConfig;

use super::connector::{LONGEST_CONNECT, Limit};
use super::resolver::Resolver;
use crate::domain::AccountId;
use crate::domain::endpoint::Endpoint;
use crate::runtime::Clock;

/// The longest a connection stays idle; most servers close after 5 s (Node) or later.
const LONGEST_IDLE: Duration = Duration::from_secs(4);
/// How much earlier than a server says we stop using a connection.
const MARGIN: Duration = Duration::from_secs(1);
/// A client is not used for longer, so that changes of the name's addresses are followed.
const LONGEST_LIFE: Duration = Duration::from_secs(300);

/// Whose connections they are: an account's, to an origin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    account: AccountId,
    https: bool,
    authority: Box<str>,
}

impl Key {
    /// The key of an account's requests to an endpoint.
    pub fn new(account: AccountId, endpoint: &Endpoint) -> Self {
        Self { account, https: endpoint.is_https(), authority: endpoint.authority().into() }
    }
}

/// One client and what is known of its origin. Instants are on the monotonic clock.
pub struct Entry {
    client: reqwest::Client,
    built: Duration,
    longest_idle: Duration,
    used_ms: AtomicU64,
}

impl Entry {
    /// The client.
    pub fn client(&self) -> &reqwest::Client {
        &self.client
    }

    fn touch(&self, now: Duration) {
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.used_ms.store(now_ms, Ordering::Relaxed);
    }

    fn used(&self) -> Duration {
        Duration::from_millis(self.used_ms.load(Ordering::Relaxed))
    }
}

/// All clients, a bounded number.
pub struct Clients {
    clock: Clock,
    resolver: Arc<Resolver>,
    tls: ClientConfig,
    entries: Cache<Key, Arc<Entry>>,
}

impl Clients {
    /// No clients yet, and at most `most`.
    pub fn new(clock: Clock, resolver: Resolver, tls: ClientConfig, most: usize) -> Self {
        Self { clock, resolver: Arc::new(resolver), tls, entries: Cache::new(most) }
    }

    /// The client for `key`.
    pub fn get(&self, key: &Key, now: Duration) -> reqwest::Result<Arc<Entry>> {
        let entry = self.entries.get_or_insert_with(key, || self.build(LONGEST_IDLE, now))?;
        let entry = if now.saturating_sub(entry.built) > LONGEST_LIFE {
            let rebuilt = self.build(entry.longest_idle, now)?;
            self.entries.insert(key.clone(), rebuilt.clone());
            rebuilt
        } else {
            entry
        };
        entry.touch(now);
        Ok(entry)
    }

    /// A response has been read over the client, whose server lets a connection be idle for
    /// `longest_idle`. If that is less than thought, the client gives way to one that knows.
    pub fn used(&self, key: Key, entry: &Entry, longest_idle: Duration, now: Duration) {
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

    /// Forgets the clients that can have no idle connection any more.
    pub fn prune(&self, now: Duration) {
        self.entries.retain(|_, entry| now.saturating_sub(entry.used()) <= LONGEST_IDLE);
    }

    fn build(&self, longest_idle: Duration, now: Duration) -> reqwest::Result<Arc<Entry>> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(Redirects::none())
            .referer(false)
            .retry(reqwest::retry::never())
            .http1_only()
            .tls_backend_preconfigured(self.tls.clone())
            .dns_resolver(self.resolver.clone())
            .connector_layer(Limit { clock: self.clock.clone() })
            // The limit that counts is the layer's; the addresses of a name share this one, so
            // that a dead one leaves time for the next.
            .connect_timeout(LONGEST_CONNECT + MARGIN)
            .pool_idle_timeout(longest_idle)
            // Otherwise as many as were in use at once, which the executor limits.
            .pool_max_idle_per_host(if longest_idle.is_zero() { 0 } else { usize::MAX })
            .build()?;
        let used_ms = AtomicU64::new(0);
        let entry = Arc::new(Entry { client, built: now, longest_idle, used_ms });
        entry.touch(now);
        Ok(entry)
    }
}

/// How long a connection may stay idle after a response with these headers.
pub fn longest_idle(headers: &HeaderMap) -> Duration {
    let parameters = headers.get("keep-alive").and_then(|value| value.to_str().ok());
    let timeout = parameters.into_iter().flat_map(|value| value.split(',')).find_map(|parameter| {
        let (name, seconds) = parameter.split_once('=')?;
        let seconds = seconds.trim().trim_matches('"').parse().ok()?;
        name.trim().eq_ignore_ascii_case("timeout").then(|| Duration::from_secs(seconds))
    });
    timeout.map_or(LONGEST_IDLE, |timeout| timeout.saturating_sub(MARGIN).min(LONGEST_IDLE))
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
