//! What the servers say of the cluster, asked from outside.

use super::stores::OpenStore;
use crate::cluster::etcd::{Seen, look};
use crate::config::{Config, Peers};
use crate::domain::Timestamp;
use crate::queue::redis;
use crate::runtime::{Clock, Random};
use crate::store::{Result, ShardRecord};

/// Why a server could not be asked: a sentence.
pub type Away = String;

/// What the servers say.
#[derive(Debug)]
pub struct Overview {
    /// When they were asked, by the store's time if it answers.
    pub now: Timestamp,
    /// How the shards stand.
    pub store: std::result::Result<Vec<ShardRecord>, Away>,
    /// Whether the queue takes writes; absent within one process.
    pub queue: Option<std::result::Result<(), Away>>,
    /// Who is alive and leads what; absent within one process.
    pub cluster: Option<std::result::Result<Seen, Away>>,
}

/// Asks all servers at once. Those that are away do not keep the others from being heard.
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
