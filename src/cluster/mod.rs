//! The cluster: which replicas are alive, and which of them leads each shard. This file is the
//! contract; the adapters are beside it.
//!
//! The answers of the cluster are hints. A leader proves its leadership by the epoch that it raises
//! in the store, and each of its writes is conditional on that epoch (LEAD-1). So in the worst
//! case, a wrong answer makes two replicas compete for a shard, and the writes of one of them are
//! rejected.

pub mod etcd;
pub mod single;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::domain::shard::{Epoch, ShardId};

/// A term: an uninterrupted leadership of one shard by this replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// The number of the term. It distinguishes the term from earlier terms of the same replica: a
    /// new term needs a new epoch.
    pub number: u64,
    /// The time until which the leader may trust the term, on the monotonic clock. Absent: for
    /// ever.
    pub trusted_until: Option<Duration>,
    /// The epoch of the dead leader that this replica replaces while the cluster is unavailable.
    /// The replica leads the shard only if no other replica has raised the epoch since.
    pub replaces: Option<Epoch>,
}

/// A shard that this replica takes over because its leader died while the cluster was unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The shard.
    pub shard: ShardId,
    /// The epoch of the previous leader.
    pub epoch: Epoch,
    /// The name of the previous leader. The cluster may still name it, which has no effect.
    pub of: String,
}

/// The shards that this replica is to lead.
pub type Terms = BTreeMap<ShardId, Term>;

/// A live replica, as it is known in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveReplica {
    /// The name that the replica chose.
    pub name: String,
    /// The version of its binary.
    pub version: String,
    /// `true` if it takes part in leading shards.
    pub leads: bool,
    /// `true` if it executes jobs.
    pub executes: bool,
    /// The shards that it leads.
    pub shards: Vec<ShardId>,
}

/// The state of the cluster, from the view of its servers.
#[derive(Clone, Debug)]
pub struct ClusterState {
    /// The id of the store that the members share; absent before the first replica has joined.
    pub installation: Option<String>,
    /// The live replicas.
    pub members: Vec<LiveReplica>,
}

/// The reason why the cluster did not answer.
#[derive(Debug, thiserror::Error)]
#[error("cluster unavailable ({operation}): {source}")]
pub struct ClusterError {
    /// The method of the contract.
    pub operation: &'static str,
    /// The cause.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Membership, and the leadership of shards.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// Returns a receiver of the shards that this replica is to lead.
    fn terms(&self) -> watch::Receiver<Terms>;

    /// Returns all live replicas.
    async fn members(&self) -> Result<Vec<LiveReplica>, ClusterError>;

    /// Returns `true` if the cluster has answered recently, so that its view of the shards counts.
    fn is_trusted(&self) -> bool;

    /// Lets this replica lead these shards in place of their dead leaders, until the cluster names
    /// another leader. The list replaces the one of the previous call.
    fn replace(&self, replacements: Vec<Replacement>);

    /// Hands over all shards and leaves the cluster. `terms` is empty when this returns.
    async fn leave(&self);
}

/// A shared cluster.
pub type SharedCluster = Arc<dyn Cluster>;
