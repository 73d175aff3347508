//! The queue and the cluster, behind the configured adapters.
//!
//! Neither server needs to be reachable at the start. Readiness waits for both for a limited time;
//! after that, the replica continues with the store alone.

use std::sync::Arc;
use std::time::Duration;

use super::StartError;
use super::stores::ReadyStore;
use crate::cluster::SharedCluster;
use crate::cluster::etcd::{EtcdCluster, EtcdSettings};
use crate::cluster::single::SingleNode;
use crate::config::{ClusterMode, Config, SharedServers};
use crate::inspection::PeerServers;
use crate::operations::{Readiness, ReadinessSources};
use crate::queue::SharedQueue;
use crate::queue::fallback::FallbackQueue;
use crate::queue::memory::MemoryQueue;
use crate::queue::redis::RedisQueue;
use crate::runtime::{Clock, Measured, Random, TaskKind, Tasks};
use crate::scheduler::SchedulerContext;
use crate::store::SharedStore;

/// The file with the host name of the machine. On Kubernetes, this is the name of the pod.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// The interval between checks of the queue and the cluster during the start.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// The time for which readiness waits for them. It is limited because only the store is required,
/// and an outage of the others may be long.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The number of failed requests before the log reports a server that does not answer. Joining
/// always takes a moment.
const SAY_FIRST: u32 = 4;

/// The connections that this replica shares with the other replicas.
pub(super) struct SharedConnections {
    queue: SharedQueue,
    cluster: SharedCluster,
    /// The name of this replica in the cluster.
    replica: String,
}

impl SharedConnections {
    /// Returns the context of the stages.
    pub(super) fn context(self, store: &SharedStore, clock: &Clock) -> SchedulerContext {
        SchedulerContext {
            store: store.clone(),
            queue: self.queue,
            cluster: self.cluster,
            clock: clock.clone(),
            starter: None,
            replica: self.replica,
            others_lack_queue: Arc::default(),
        }
    }
}

/// Returns the queue and the cluster that this replica shares with others; `None` in an embedded
/// installation.
pub(super) fn peer_servers(config: &Config, context: &SchedulerContext) -> Option<PeerServers> {
    let (queue, cluster) = (context.queue.clone(), context.cluster.clone());
    matches!(config.cluster_mode, ClusterMode::Cluster(_)).then_some(PeerServers { queue, cluster })
}

/// Connects to the queue and joins the cluster. The servers need not be reachable yet.
pub(super) fn join(
    config: &Config,
    ready: &ReadyStore,
    clock: &Clock,
    random: &Random,
    tasks: &Tasks,
) -> Result<SharedConnections, StartError> {
    let replica = name(random);
    let ClusterMode::Cluster(shared) = &config.cluster_mode else {
        let cluster = Arc::new(SingleNode::new(replica.clone(), ready.shards));
        let queue = Measured::new(Arc::new(MemoryQueue::new()), clock.clone());
        return Ok(SharedConnections { queue: Arc::new(queue), cluster, replica });
    };
    let SharedServers { queue, cluster, lease_time } = (**shared).clone();
    let queue = RedisQueue::start(queue, ready.shards, clock.clone(), random.clone(), tasks)?;
    let queue = Arc::new(Measured::new(Arc::new(queue), clock.clone()));
    let queue = FallbackQueue::start(
        queue,
        Arc::new(MemoryQueue::new()),
        config.roles.executor,
        clock.clone(),
        tasks,
    );
    let settings = EtcdSettings {
        servers: cluster,
        name: replica.clone(),
        leads: config.roles.scheduler,
        executes: config.roles.executor,
        shards: ready.shards,
        installation: format!("{:08x}", ready.installation),
        lease_time,
    };
    let cluster = EtcdCluster::start(settings, clock.clone(), random.clone(), tasks);
    let cluster = Arc::new(cluster.map_err(StartError::Member)?);
    Ok(SharedConnections { queue: Arc::new(queue), cluster, replica })
}

/// Makes the replica ready when queue and cluster have answered, so that a load balancer can send
/// it requests and a rolling update can stop another replica. After `TIMEOUT`, the replica becomes
/// ready without them.
pub(super) fn wait_for(
    config: &Config,
    context: &SchedulerContext,
    readiness: &Arc<Readiness>,
    tasks: &Tasks,
) {
    let (store, cluster) = (context.store.clone(), context.cluster.clone());
    let alone = matches!(config.cluster_mode, ClusterMode::Alone);
    let queue = (!alone).then(|| context.queue.clone());
    let serving = ReadinessSources { store, queue, cluster, replica: context.replica.clone() };
    if alone {
        return readiness.serving(serving);
    }
    let (context, readiness) = (context.clone(), readiness.clone());
    let stopping = tasks.stopping().clone();
    tasks.spawn(TaskKind::Upkeep, async move {
        let arrived = async {
            let (mut asked, until) = (0, context.clock.monotonic() + TIMEOUT);
            while let Err(away) = ask(&context, asked == SAY_FIRST).await {
                if context.clock.monotonic() >= until {
                    let away = away.join(" and ");
                    tracing::warn!(
                        unreachable = %away,
                        "queue or cluster unreachable, starting with the store alone"
                    );
                    break;
                }
                readiness.waiting_for(away);
                context.clock.sleep(ASK_EVERY).await;
                asked += 1;
            }
            readiness.serving(serving);
        };
        stopping.run_until_cancelled(arrived).await;
    });
}

/// Checks the queue and the cluster. Returns the names of those that do not answer, and logs them
/// if `say` is set.
async fn ask(context: &SchedulerContext, say: bool) -> Result<(), Vec<&'static str>> {
    let queue = context.queue.ping().await.map_err(|error| error.to_string());
    let cluster = context.cluster.members().await.map_err(|error| error.to_string());
    let asked = [
        ("queue", "waiting for the queue (queue.url)", queue.err()),
        ("cluster", "waiting for the cluster (cluster.url)", cluster.err()),
    ];
    let mut away = Vec::new();
    for (name, what, error) in asked {
        let Some(error) = error else { continue };
        if say {
            tracing::warn!(%error, "{what}");
        }
        away.push(name);
    }
    if away.is_empty() { Ok(()) } else { Err(away) }
}

/// Returns the name of this replica: the host name, and a random suffix that distinguishes this
/// process from earlier ones on the same host.
fn name(random: &Random) -> String {
    let host = std::fs::read_to_string(HOST_NAME).unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "replica" } else { host };
    format!("{host}-{:08x}", random.bits() >> 96)
}
