//! A cluster whose calls meet faults, and whose terms arrive late.

use async_trait::async_trait;
use punctual::cluster::{Cluster, ClusterError, LiveReplica, Replacement};
use punctual::runtime::TaskKind;
use tokio::sync::watch;

use super::world::*;
use crate::conformance::faults::Faults;

/// A cluster whose calls meet faults.
pub struct FlakyCluster {
    inner: SharedCluster,
    faults: Arc<Faults>,
    late: watch::Sender<Terms>,
}

impl FlakyCluster {
    /// Returns the replica with its cluster wrapped in faults.
    pub fn around(replica: Replica, faults: &Arc<Faults>) -> Replica {
        let (inner, faults) = (replica.cluster, faults.clone());
        let late = watch::Sender::new(Terms::new());
        let (mut terms, pass_on, delay) = (inner.terms(), late.clone(), faults.clone());
        terms.mark_changed();
        replica.tasks.spawn(TaskKind::Connection, async move {
            while terms.changed().await.is_ok() {
                delay.never_repeated("terms", || std::future::ready(())).await;
                pass_on.send_replace(terms.borrow_and_update().clone());
            }
        });
        Replica { cluster: Arc::new(Self { inner, faults, late }), ..replica }
    }
}

#[async_trait]
impl Cluster for FlakyCluster {
    fn terms(&self) -> watch::Receiver<Terms> {
        self.late.subscribe()
    }

    async fn members(&self) -> Result<Vec<LiveReplica>, ClusterError> {
        self.faults.repeatable("members", || self.inner.members()).await
    }

    fn is_trusted(&self) -> bool {
        self.inner.is_trusted()
    }

    fn replace(&self, replacements: Vec<Replacement>) {
        self.inner.replace(replacements);
    }

    async fn leave(&self) {
        self.faults.repeatable("leave", || self.inner.leave()).await;
        let passed_on = self.late.subscribe().wait_for(Terms::is_empty).await.is_ok();
        assert!(passed_on, "the end of the terms");
    }
}
