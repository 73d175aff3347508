//! The lease of this replica in the store: renewed by a loop, and ended when the replica stops.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::stages;
use crate::config::{ClusterMode, Config};
use crate::runtime::{TaskKind, Tasks};
use crate::scheduler::{LeaderReplacer, SchedulerContext};
use crate::store::SharedStore;

/// The lease of a replica in the store. Other replicas read it while etcd is unreachable.
pub(super) struct StoreLease {
    store: SharedStore,
    /// The name of the replica in the store.
    replica: String,
    /// The loop that renews the lease. It ends when the replica begins to stop.
    renewals: JoinHandle<Option<()>>,
}

impl StoreLease {
    /// Starts the loop that renews the lease. Returns `None` if the replica works alone.
    pub(super) fn start(
        config: &Config,
        context: &SchedulerContext,
        tasks: &Tasks,
    ) -> Option<Self> {
        let ClusterMode::Cluster(_) = config.cluster_mode else { return None };
        let (lease_time, leads) = (config.executor.claim_time, config.roles.scheduler);
        let replacer = LeaderReplacer::new(context.clone(), lease_time, leads);
        let renewals = stages::run(tasks, TaskKind::Upkeep, context, Arc::default(), replacer);
        Some(Self { store: context.store.clone(), replica: context.replica.clone(), renewals })
    }

    /// Ends the lease, so that other replicas can take over at once. If this fails, they take over
    /// when the lease expires.
    ///
    /// The loop has to have begun to stop. This waits for its last renewal, which would bring the
    /// lease back.
    pub(super) async fn end(self) {
        if let Err(error) = self.renewals.await {
            tracing::debug!(%error, "the loop that renews the lease in the store did not end");
        }
        if let Err(error) = self.store.end_replica(&self.replica).await {
            tracing::debug!(%error, "could not end the lease in the store");
        }
    }
}
