//! The cluster: who is alive and who leads which shard. This file is the contract; the adapters
//! are beside it.
//!
//! What it says is a hint. A leader proves itself by the epoch that it raises in the store; every
//! write it makes is conditional on that (LEAD-1). So the worst that a wrong answer here can do is
//! to make two replicas compete, of which one changes nothing.

pub mod etcd;
pub mod single;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::domain::shard::{Epoch, ShardId};

/// A period of leading one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Tells this period from an earlier one of the same replica: a new one needs a new epoch.
    pub number: u64,
    /// Until when, on the monotonic clock, the leader may trust it; absent: for ever.
    pub trusted_until: Option<Duration>,
    /// The epoch of the leader that has died and is replaced, while the cluster is away: the shard is
    /// led only if nobody has raised it since.
    pub replaces: Option<Epoch>,
}

/// A shard whose leader has died while the cluster was away, to be led by this replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The shard.
    pub shard: ShardId,
    /// The epoch of the leader before.
    pub epoch: Epoch,
    /// The name of the leader before: that the cluster still names it means nothing.
    pub of: String,
}

/// The shards that this replica shall lead.
pub type Terms = BTreeMap<ShardId, Term>;

/// A replica, as its peers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The name it gave itself.
    pub name: String,
    /// The version of its binary.
    pub version: String,
    /// Whether it takes part in leading shards.
    pub leads: bool,
    /// Whether it runs jobs.
    pub executes: bool,
    /// The shards it leads.
    pub shards: Vec<ShardId>,
}

/// Why the cluster could not be asked.
#[derive(Debug, thiserror::Error)]
#[error("cluster unavailable ({operation}): {source}")]
pub struct ClusterError {
    /// The contract's method.
    pub operation: &'static str,
    /// What went wrong.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Who is alive and who leads which shard.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// The shards to lead, as they change.
    fn terms(&self) -> watch::Receiver<Terms>;

    /// All replicas that are alive.
    async fn members(&self) -> Result<Vec<Member>, ClusterError>;

    /// Whether what it says of the shards counts: it has answered lately.
    fn is_trusted(&self) -> bool;

    /// Gives this replica these shards, and takes from it those that it was given so before, until the
    /// cluster names somebody else.
    fn replace(&self, replacements: Vec<Replacement>);

    /// Hands all shards over and leaves. `terms` is empty when it returns.
    async fn leave(&self);
}

/// A cluster shared by all who use it.
pub type SharedCluster = Arc<dyn Cluster>;
