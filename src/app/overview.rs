//! The state of the cluster, read directly from its servers instead of from a replica.

use super::stores::OpenStore;
use crate::cluster::etcd::inspect;
use crate::config::{ClusterMode, Config};
use crate::domain::Timestamp;
use crate::inspection::{ServersOverview, StoreState};
use crate::queue::redis;
use crate::runtime::{Clock, Random};
use crate::store::Result;

/// Queries all servers concurrently. A server that does not answer does not affect the others.
pub async fn overview(config: &Config, clock: &Clock) -> ServersOverview {
    let store = async {
        let store = OpenStore::open(config, &Random::system()).await;
        let store = store.map_err(|error| error.to_string())?;
        let told = state(&store, clock).await.map_err(|error| error.to_string());
        store.close().await;
        told
    };
    let servers = async {
        let ClusterMode::Cluster(shared) = &config.cluster_mode else { return (None, None) };
        let (queue, cluster) =
            tokio::join!(redis::ask(&shared.queue, clock.clone()), inspect(&shared.cluster, clock));
        let queue = queue.map_err(|error| error.to_string());
        (Some(queue), Some(cluster.map_err(|error| error.to_string())))
    };
    let (store, (queue, cluster)) = tokio::join!(store, servers);
    let now = store.as_ref().map_or_else(|_| clock.now(), |(now, _)| *now);
    ServersOverview { now, store: store.map(|(_, state)| state), queue, cluster }
}

async fn state(store: &OpenStore, clock: &Clock) -> Result<(Timestamp, StoreState)> {
    let store = store.shared();
    let now = store.time().await?.unwrap_or_else(|| clock.now());
    Ok((now, StoreState::read(&store, now).await?))
}
