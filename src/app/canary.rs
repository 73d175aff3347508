//! The setup of the canary: the listener that it calls, the exception in the egress guard, and the
//! worker that counts its requests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tokio::sync::mpsc;

use super::stages::run;
use crate::config::Config;
use crate::operations::canary::{
    Arrival, Arrivals, Canary, CanaryParts, CanarySuspender, HOSTS, PATH, account, arrivals,
};
use crate::outbound::{EgressException, OutboundSettings};
use crate::runtime::{Random, TaskKind, Tasks};
use crate::scheduler::SchedulerContext;

/// The parts of the canary that exist before the store is open.
pub(super) struct CanaryStart {
    /// Both ends of the channel from `/echo`; absent if the canary is switched off.
    requests: Option<(Arrivals, mpsc::Receiver<Arrival>)>,
    /// The address that the canary calls.
    address: SocketAddr,
}

impl CanaryStart {
    /// Prepares the canary to call the `operations` listener, if it is switched on.
    pub(super) fn new(config: &Config, operations: SocketAddr) -> Self {
        // A listener on the unspecified address is called at the loopback address.
        let ip = match operations.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let address = SocketAddr::new(ip, operations.port());
        Self { requests: config.canary.then(arrivals), address }
    }

    /// Returns the channel end through which `/echo` reports the canary's requests.
    pub(super) fn arrivals(&self) -> Option<Arrivals> {
        self.requests.as_ref().map(|(arrivals, _)| arrivals.clone())
    }

    /// Returns the outbound settings, with an exception for the canary's account in the egress
    /// guard.
    pub(super) fn outbound(&self, config: &Config) -> OutboundSettings {
        let exception =
            EgressException { account: account(), hosts: HOSTS, path: PATH, address: self.address };
        let exception = self.requests.is_some().then_some(exception);
        OutboundSettings { exception, ..config.outbound.clone() }
    }

    /// Starts the canary's worker. If the canary is switched off, suspends its account instead.
    pub(super) fn start(
        self,
        context: &SchedulerContext,
        tasks: &Tasks,
        random: &Random,
        shards: u16,
    ) {
        let Some((_, arrived)) = self.requests else {
            let suspender = CanarySuspender::new(context.store.clone(), random.clone());
            run(tasks, TaskKind::Upkeep, context, Arc::default(), suspender);
            return;
        };
        let parts = CanaryParts {
            store: context.store.clone(),
            queue: context.queue.clone(),
            cluster: context.cluster.clone(),
            replica: context.replica.clone(),
            shards,
            random: random.clone(),
        };
        run(tasks, TaskKind::Upkeep, context, Arc::default(), Canary::new(parts, arrived));
    }
}
