//! DNS resolution with a policy check of every address.
//!
//! The HTTP library dials exactly the addresses that are returned here; a name is never resolved a
//! second time.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig,
    ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::Name as DnsName;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

use super::failure::{self, StoppedRequest};
use super::policy::{Policy, ResolutionRoute};
use super::trace::{self, Phase};
use crate::domain::outcome::Failure;
use crate::runtime::Clock;

/// The maximum number of concurrent lookups; more wait within their own time limit.
const CONCURRENT_LOOKUPS: usize = 256;
/// The maximum number of cached answers. An answer is cached for its TTL, but at most for the
/// limits below, so that a corrected record takes effect soon.
const CACHED_ANSWERS: u64 = 4_096;
const MAX_ANSWER: Duration = Duration::from_secs(300);
const MAX_DENIAL: Duration = Duration::from_secs(10);
/// The interval between DNS queries and the number of queries per lookup. Their product exceeds the
/// longest lookup, so the lookup's own limit always ends it.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(1_500);
const QUESTIONS: usize = 4;

/// The maximum time of one lookup. It is also bounded by half of the attempt's timeout.
const MAX_LOOKUP: Duration = Duration::from_secs(5);

/// A resolver that asks the name servers and checks their answers.
pub struct Resolver(Arc<ResolverInner>);

struct ResolverInner {
    clock: Clock,
    policy: Arc<Policy>,
    names: TokioResolver,
    permits: Semaphore,
}

impl Resolver {
    /// Creates a resolver that asks `servers`. Without `servers` it uses the system's name servers
    /// and hosts file. Without a usable system configuration it asks a name server on this machine,
    /// as the C library does.
    pub fn new(
        servers: &[SocketAddr],
        policy: Arc<Policy>,
        clock: Clock,
    ) -> Result<Self, NetError> {
        let (config, mut options) = if servers.is_empty() {
            system()
        } else {
            let servers = servers.iter().map(|&server| name_server(server)).collect();
            let config = ResolverConfig::from_name_servers(servers);
            let mut options = ResolverOpts::default();
            options.use_hosts_file = ResolveHosts::Never;
            (config, options)
        };
        // Always look up both address families, because every address of a name is checked.
        options.ip_strategy = LookupIpStrategy::Ipv6AndIpv4;
        options.timeout = ASK_AGAIN_AFTER;
        options.attempts = QUESTIONS;
        options.cache_size = CACHED_ANSWERS;
        options.positive_max_ttl = Some(MAX_ANSWER);
        options.negative_max_ttl = Some(MAX_DENIAL);
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let names = builder.with_options(options).build()?;
        let permits = Semaphore::new(CONCURRENT_LOOKUPS);
        Ok(Self(Arc::new(ResolverInner { clock, policy, names, permits })))
    }
}

impl Resolve for Resolver {
    /// Resolves a name to its checked addresses. An error is a [`StoppedRequest`].
    fn resolve(&self, name: Name) -> Resolving {
        let inner = self.0.clone();
        Box::pin(async move {
            let addresses = inner.judged_addresses(name.as_str()).await.map_err(StoppedRequest)?;
            // Port 0 means the port of the URL.
            let addresses = addresses.into_iter().map(|ip| SocketAddr::new(ip, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

impl ResolverInner {
    async fn judged_addresses(&self, name: &str) -> Result<Vec<IpAddr>, Failure> {
        match self.policy.route(name).map_err(failure::refused)? {
            ResolutionRoute::Known(addresses) => return Ok(addresses),
            ResolutionRoute::Nowhere => return Err(failure::no_such_name()),
            ResolutionRoute::Lookup => {}
        }
        let started = self.clock.monotonic();
        trace::note(|trace| trace.enter(Phase::Lookup));
        let limit = trace::note(|trace| trace.timeout / 2).unwrap_or(MAX_LOOKUP);
        let limit = limit.min(MAX_LOOKUP);
        let found = tokio::select! {
            biased;
            found = self.addresses(name) => found,
            () = self.clock.sleep(limit) => Err(failure::slow_lookup(limit)),
        };
        let spent = self.clock.monotonic().saturating_sub(started);
        trace::note(|trace| trace.looked_up(spent));
        let addresses = found?;
        self.policy.judge(&addresses).map_err(failure::refused)?;
        trace::note(|trace| trace.enter(Phase::Connect));
        Ok(addresses)
    }

    /// Returns all addresses of a name. The name is taken as fully qualified: the system's search
    /// list is for names that people type on that machine.
    async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, Failure> {
        let mut name = DnsName::from_ascii(name).map_err(|_| failure::no_such_name())?;
        name.set_fqdn(true);
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await.ok();
        match self.names.lookup_ip(name).await {
            Ok(found) => {
                let addresses: Vec<_> = found.iter().collect();
                if addresses.is_empty() { Err(failure::no_address()) } else { Ok(addresses) }
            }
            Err(error) if error.is_nx_domain() => Err(failure::no_such_name()),
            Err(error) if error.is_no_records_found() => Err(failure::no_address()),
            Err(_) => Err(failure::unresolved()),
        }
    }
}

fn system() -> (ResolverConfig, ResolverOpts) {
    hickory_resolver::system_conf::read_system_conf().unwrap_or_else(|error| {
        tracing::warn!(%error, "no usable name server is configured, using this machine's");
        let server = name_server(SocketAddr::from((Ipv4Addr::LOCALHOST, 53)));
        (ResolverConfig::from_name_servers(vec![server]), ResolverOpts::default())
    })
}

fn name_server(server: SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = server.port();
        connection
    });
    NameServerConfig::new(server.ip(), true, connections.to_vec())
}
