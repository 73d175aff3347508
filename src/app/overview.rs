//! The state of the cluster, read directly from its servers instead of from a replica.

use super::stores::OpenStore;
use crate::cluster::etcd::{Seen, look};
use crate::config::{Config, Peers};
use crate::domain::Timestamp;
use crate::queue::redis;
use crate::runtime::{Clock, Random};
use crate::store::{ReplicaLease, Result, ShardRecord};

/// The reason why a server could not be asked, as a sentence.
pub type Away = String;

/// The answer of the store.
#[derive(Debug, Default)]
pub struct StoreState {
    /// The state of the shards.
    pub shards: Vec<ShardRecord>,
    /// The leases of the live replicas.
    pub alive: Vec<ReplicaLease>,
}

/// The answers of the servers.
#[derive(Debug)]
pub struct Overview {
    /// The time of the overview: the store's time, or the local time if the store does not answer.
    pub now: Timestamp,
    /// The state of the shards and of the replicas in the store.
    pub store: std::result::Result<StoreState, Away>,
    /// `Ok` if the queue accepts writes; absent without a cluster.
    pub queue: Option<std::result::Result<(), Away>>,
    /// The live replicas and the leaders of the shards; absent without a cluster.
    pub cluster: Option<std::result::Result<Seen, Away>>,
}

/// Asks all servers concurrently. A server that does not answer does not affect the others.
pub async fn overview(config: &Config, clock: &Clock) -> Overview {
    let store = async {
        let store = OpenStore::open(config, &Random::system()).await;
        let store = store.map_err(|error| error.to_string())?;
        let told = state(&store, clock).await.map_err(|error| error.to_string());
        store.close().await;
        told
    };
    let peers = async {
        let Peers::Cluster(shared) = &config.peers else { return (None, None) };
        let (queue, cluster) =
            tokio::join!(redis::ask(&shared.queue, clock.clone()), look(&shared.cluster, clock));
        let queue = queue.map_err(|error| error.to_string());
        (Some(queue), Some(cluster.map_err(|error| error.to_string())))
    };
    let (store, (queue, cluster)) = tokio::join!(store, peers);
    let now = store.as_ref().map_or_else(|_| clock.now(), |(now, _)| *now);
    Overview { now, store: store.map(|(_, state)| state), queue, cluster }
}

async fn state(store: &OpenStore, clock: &Clock) -> Result<(Timestamp, StoreState)> {
    let store = store.shared();
    let now = store.time().await?.unwrap_or_else(|| clock.now());
    let shards = store.shard_records(now).await?;
    let alive = store.leadership(now).await?.alive;
    Ok((now, StoreState { shards, alive }))
}
