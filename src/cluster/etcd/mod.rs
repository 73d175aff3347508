//! The cluster in etcd 3.4 or later.
//!
//! Each replica has one lease. Attached to it are the replica's key under `members/` and one key
//! for each shard that it leads. A transaction creates the key of a shard only if it does not
//! exist. Every replica watches all keys and computes the owner of each shard from the list of
//! members. So a replica takes its own shards when they are free, and releases the shards of
//! others, without any negotiation.
//!
//! All of this runs on a separate thread, so that a busy scheduler cannot delay the renewal of the
//! lease. During an outage of etcd, the terms are no longer trusted, and the replica tries one
//! server after the other until one answers. When the lease expires, its terms end, and the replica
//! requests a new lease.

mod checkup;
mod connection;
mod failure;
mod inspection;
mod member;
mod membership;
mod settings;
mod trust;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Cluster, ClusterError, Replacement, Terms};
use crate::runtime::{Clock, Random, TaskKind, Tasks};
pub use checkup::{EtcdCheckup, check_up};
pub use inspection::inspect;
use member::{EtcdMember, KnownMembership};
use membership::EtcdKeys;
pub use settings::{EtcdSettings, InvalidEtcdSettings, ServerSettings};
pub use trust::Trust;

/// The timeout for leaving the cluster.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

/// The cluster in etcd.
pub struct EtcdCluster {
    clock: Clock,
    trust: Arc<Trust>,
    known: watch::Receiver<KnownMembership>,
    leaving: CancellationToken,
    left: CancellationToken,
}

impl EtcdCluster {
    /// Joins the cluster in the background. There are no terms until it has joined.
    ///
    /// # Errors
    /// If the operating system cannot start a thread.
    pub fn start(
        settings: EtcdSettings,
        clock: Clock,
        random: Random,
        tasks: &Tasks,
    ) -> io::Result<Self> {
        let trust = Arc::new(Trust::new(clock.clone()));
        let (known, knows) = watch::channel(Err("it has not joined yet".to_owned()));
        let (leaving, left) = (CancellationToken::new(), CancellationToken::new());
        let turn = usize::from(random.bits().to_be_bytes()[0]);
        let member = EtcdMember {
            keys: EtcdKeys::new(&settings.servers.prefix),
            settings,
            clock: clock.clone(),
            random,
            trust: trust.clone(),
            known,
            leaving: leaving.clone(),
            turn,
            lease: None,
        };
        let ended = left.clone().drop_guard();
        tasks.spawn_apart(TaskKind::Member, || async move {
            Box::pin(member.run()).await;
            drop(ended);
        })?;
        Ok(Self { clock, trust, known: knows, leaving, left })
    }
}

#[async_trait]
impl Cluster for EtcdCluster {
    fn terms(&self) -> watch::Receiver<Terms> {
        self.trust.terms()
    }

    async fn members(&self) -> Result<Vec<super::LiveReplica>, ClusterError> {
        let known = self.known.borrow().clone();
        let view =
            known.map_err(|why| ClusterError { operation: "members", source: why.into() })?;
        Ok(view.all_members())
    }

    fn is_trusted(&self) -> bool {
        self.trust.is_trusted_now()
    }

    fn replace(&self, replacements: Vec<Replacement>) {
        self.trust.replace(replacements);
    }

    async fn leave(&self) {
        self.trust.close();
        self.leaving.cancel();
        tokio::select! {
            () = self.left.cancelled() => {}
            () = self.clock.sleep(LEAVE_WITHIN) => {
                tracing::warn!("etcd did not answer, leaving without ending the lease");
            }
        }
    }
}
