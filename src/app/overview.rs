//! The state of the cluster, read directly from its servers instead of from a replica.

use super::stores::OpenStore;
use crate::cluster::etcd::{Seen, look};
use crate::config::{Config, Peers};
use crate::domain::Timestamp;
use crate::queue::redis;
use crate::runtime::{Clock, Random};
use crate::store::{Result, ShardRecord};

/// The reason why a server could not be asked, as a sentence.
pub type Away = String;

/// The answers of the servers.
#[derive(Debug)]
pub struct Overview {
    /// The time of the overview: the store's time, or the local time if the store does not answer.
    pub now: Timestamp,
    /// The state of the shards in the store.
    pub store: std::result::Result<Vec<ShardRecord>, Away>,
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
        let told = records(&store, clock).await.map_err(|error| error.to_string());
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
    Overview { now, store: store.map(|(_, shards)| shards), queue, cluster }
}

async fn records(store: &OpenStore, clock: &Clock) -> Result<(Timestamp, Vec<ShardRecord>)> {
    let store = store.shared();
    let now = store.time().await?.unwrap_or_else(|| clock.now());
    Ok((now, store.shard_records(now).await?))
}
