//! Queries the servers over the connections of this replica.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::{InstallationReport, ServersOverview, StoreState};
use crate::cluster::{ClusterState, SharedCluster};
use crate::queue::SharedQueue;
use crate::runtime::Clock;
use crate::store::SharedStore;

/// The time for which a report is reused. A new one scans all schedules.
const REUSED_FOR: Duration = Duration::from_secs(5);
/// The timeout for the answer of a server.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The queue and the cluster that replicas share.
#[derive(Clone)]
pub struct PeerServers {
    /// The queue.
    pub queue: SharedQueue,
    /// The cluster.
    pub cluster: SharedCluster,
}

/// Reports on the installation. Concurrent calls share one report.
pub struct Inspector {
    store: SharedStore,
    /// Absent in an embedded installation, whose replica has the queue in memory and leads all
    /// shards.
    servers: Option<PeerServers>,
    clock: Clock,
    /// The last report and its time, on the monotonic clock. The lock is held while a report is
    /// made.
    last: Mutex<Option<(Duration, Arc<InstallationReport>)>>,
}

impl Inspector {
    /// Creates the inspector of a replica.
    pub fn new(store: SharedStore, servers: Option<PeerServers>, clock: Clock) -> Self {
        Self { store, servers, clock, last: Mutex::default() }
    }

    /// Returns a report that is at most 5 seconds old.
    pub async fn report(&self) -> Arc<InstallationReport> {
        let mut last = self.last.lock().await;
        let now = self.clock.monotonic();
        if let Some((made, report)) = &*last
            && now.saturating_sub(*made) < REUSED_FOR
        {
            return report.clone();
        }
        let report = Arc::new(InstallationReport::new(self.ask().await));
        *last = Some((self.clock.monotonic(), report.clone()));
        report
    }

    async fn ask(&self) -> ServersOverview {
        let now = self.clock.now();
        let store = self.answer(StoreState::read(&self.store, now));
        let servers = async {
            let Some(PeerServers { queue, cluster }) = &self.servers else {
                return (None, None);
            };
            let (queue, members) =
                tokio::join!(self.answer(queue.ping()), self.answer(cluster.members()));
            let state = members.map(|members| ClusterState { installation: None, members });
            (Some(queue), Some(state))
        };
        let (store, (queue, cluster)) = tokio::join!(store, servers);
        ServersOverview { now, store, queue, cluster }
    }

    async fn answer<T, E: ToString>(
        &self,
        question: impl Future<Output = Result<T, E>>,
    ) -> Result<T, String> {
        tokio::select! {
            answer = question => answer.map_err(|error| error.to_string()),
            () = self.clock.sleep(TIMEOUT) => {
                Err(format!("no answer within {} s", TIMEOUT.as_secs()))
            }
        }
    }
}
