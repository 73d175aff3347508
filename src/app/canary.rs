//! The canary, as it is configured: the listener that it calls, the egress guard that lets it, and the
//! loop that counts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tokio::sync::mpsc;

use super::stages::run;
use crate::config::Config;
use crate::operations::canary::{
    Arrival, Arrivals, Canary, CanaryParts, HOSTS, PATH, Rest, account, arrivals,
};
use crate::outbound::{Exception, Settings};
use crate::runtime::{Random, TaskKind, Tasks};
use crate::scheduler::Context;

/// What is known of the canary before the store is.
pub(super) struct CanaryStart {
    /// Absent if it is switched off.
    requests: Option<(Arrivals, mpsc::Receiver<Arrival>)>,
    /// Where it calls.
    address: SocketAddr,
}

impl CanaryStart {
    /// Calls the `operations` listener, if it is switched on.
    pub(super) fn new(config: &Config, operations: SocketAddr) -> Self {
        // An address that stands for all of the machine is called by its loopback one.
        let ip = match operations.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let address = SocketAddr::new(ip, operations.port());
        Self { requests: config.canary.then(arrivals), address }
    }

    /// Where `/echo` notes its requests.
    pub(super) fn arrivals(&self) -> Option<Arrivals> {
        self.requests.as_ref().map(|(arrivals, _)| arrivals.clone())
    }

    /// What the egress guard allows.
    pub(super) fn outbound(&self, config: &Config) -> Settings {
        let exception =
            Exception { account: account(), hosts: HOSTS, path: PATH, address: self.address };
        let exception = self.requests.is_some().then_some(exception);
        Settings { exception, ..config.outbound.clone() }
    }

    /// Begins to count; or, if it is switched off, lets rest what there is of it.
    pub(super) fn start(self, context: &Context, tasks: &Tasks, random: &Random, shards: u16) {
        let Some((_, arrived)) = self.requests else {
            let rest = Rest::new(context.store.clone(), random.clone());
            run(tasks, TaskKind::Upkeep, context, Arc::default(), rest);
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
