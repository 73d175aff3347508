//! The queue and the cluster, by whichever adapters are configured.

use std::sync::Arc;

use super::StartError;
use super::stores::Ready;
use crate::cluster::SharedCluster;
use crate::cluster::etcd::{EtcdCluster, Settings};
use crate::cluster::single::SingleNode;
use crate::config::{Config, Peers, Shared};
use crate::queue::SharedQueue;
use crate::queue::memory::MemoryQueue;
use crate::queue::redis::RedisQueue;
use crate::queue::standby::Standby;
use crate::runtime::{Clock, Random, Tasks};

/// Where the system keeps the machine's name, which on Kubernetes is the pod's.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// What this replica shares with the others.
pub(super) struct Joined {
    pub(super) queue: SharedQueue,
    pub(super) cluster: SharedCluster,
    /// What the others call this one.
    pub(super) replica: String,
}

/// Takes part. Servers need not be there yet.
pub(super) fn join(
    config: &Config,
    ready: &Ready,
    clock: &Clock,
    random: &Random,
    tasks: &Tasks,
) -> Result<Joined, StartError> {
    let replica = name(random);
    let Peers::Cluster(shared) = &config.peers else {
        let cluster = Arc::new(SingleNode::new(replica.clone(), ready.shards));
        return Ok(Joined { queue: Arc::new(MemoryQueue::new()), cluster, replica });
    };
    let Shared { queue, cluster, lease_time } = (**shared).clone();
    let queue = RedisQueue::start(queue, ready.shards, clock.clone(), random.clone(), tasks)?;
    let mut queue: SharedQueue = Arc::new(queue);
    if config.roles.executor {
        queue = Arc::new(Standby::new(queue, Arc::new(MemoryQueue::new())));
    }
    let settings = Settings {
        servers: cluster,
        name: replica.clone(),
        leads: config.roles.scheduler,
        shards: ready.shards,
        installation: format!("{:08x}", ready.installation),
        lease_time,
    };
    let cluster = EtcdCluster::start(settings, clock.clone(), random.clone(), tasks);
    let cluster = Arc::new(cluster.map_err(StartError::Member)?);
    Ok(Joined { queue, cluster, replica })
}

/// The machine's name and something that tells this process from those that ran there before.
fn name(random: &Random) -> String {
    let host = std::fs::read_to_string(HOST_NAME).unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "replica" } else { host };
    format!("{host}-{:08x}", random.bits() >> 96)
}
