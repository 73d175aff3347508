//! The cluster of a single replica, which leads all shards until it stops.

use async_trait::async_trait;
use tokio::sync::watch;

use super::{Cluster, ClusterError, LiveReplica, Replacement, Term, Terms};
use crate::domain::shard::ShardId;

/// A cluster with one member.
pub struct SingleNode {
    name: String,
    terms: watch::Sender<Terms>,
}

impl SingleNode {
    /// Creates a cluster whose only member `name` leads all shards from the start.
    pub fn new(name: impl Into<String>, shards: u16) -> Self {
        let term = Term { number: 1, trusted_until: None, replaces: None };
        let terms = (0..shards).map(|shard| (ShardId(shard), term)).collect();
        Self { name: name.into(), terms: watch::Sender::new(terms) }
    }
}

#[async_trait]
impl Cluster for SingleNode {
    fn terms(&self) -> watch::Receiver<Terms> {
        self.terms.subscribe()
    }

    async fn members(&self) -> Result<Vec<LiveReplica>, ClusterError> {
        let shards = self.terms.borrow().keys().copied().collect();
        let (name, version) = (self.name.clone(), env!("CARGO_PKG_VERSION").to_owned());
        Ok(vec![LiveReplica { name, version, leads: true, executes: true, shards }])
    }

    fn is_trusted(&self) -> bool {
        true
    }

    /// Does nothing: there is no other replica to replace.
    fn replace(&self, _: Vec<Replacement>) {}

    async fn leave(&self) {
        self.terms.send_replace(Terms::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn leads_everything_until_it_leaves() {
        let cluster = SingleNode::new("here", 3);
        let terms = cluster.terms();
        assert_eq!(terms.borrow().len(), 3);
        let members = cluster.members().await.expect("always there");
        assert_eq!(members[0].shards, [ShardId(0), ShardId(1), ShardId(2)]);
        cluster.leave().await;
        assert!(terms.borrow().is_empty());
    }
}
