//! The cluster in etcd 3.4 or later.
//!
//! Each replica has one lease. With it live its key under `members/` and a key for each shard it
//! leads, made by a transaction that succeeds only if there is none. Everybody watches all keys and
//! computes from the members which shards are whose: so a replica takes what is its own and free,
//! and gives away what is another's, without asking.
//!
//! All of it runs on a thread of its own, where a busy scheduler cannot keep the renewal waiting.
//! When etcd is away, the terms are no longer trusted, and this replica tries one server after the
//! other until it is back. A lease that has ended takes the terms with it, and is followed by a new one.

mod checkup;
mod failure;
mod line;
mod look;
mod member;
mod settings;
mod trust;
mod view;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Cluster, ClusterError, Replacement, Terms};
use crate::runtime::{Clock, Random, TaskKind, Tasks};
pub use checkup::{Inspected, check_up};
pub use look::{Seen, look};
use member::{Known, Member};
pub use settings::{InvalidSettings, ServerSettings, Settings};
use trust::Trust;
use view::Keys;

/// How long leaving waits for etcd.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

/// The cluster in etcd.
pub struct EtcdCluster {
    clock: Clock,
    trust: Arc<Trust>,
    known: watch::Receiver<Known>,
    leaving: CancellationToken,
    left: CancellationToken,
}

impl EtcdCluster {
    /// Joins in the background; there are no terms until it has.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(
        settings: Settings,
        clock: Clock,
        random: Random,
        tasks: &Tasks,
    ) -> io::Result<Self> {
        let trust = Arc::new(Trust::new(clock.clone()));
        let (known, knows) = watch::channel(Err("it has not joined yet".to_owned()));
        let (leaving, left) = (CancellationToken::new(), CancellationToken::new());
        let turn = usize::from(random.bits().to_be_bytes()[0]);
        let member = Member {
            keys: Keys::new(&settings.servers.prefix),
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

    async fn members(&self) -> Result<Vec<super::Member>, ClusterError> {
        let known = self.known.borrow().clone();
        let view =
            known.map_err(|why| ClusterError { operation: "members", source: why.into() })?;
        Ok(view.all_members())
    }

    fn is_trusted(&self) -> bool {
        self.trust.is_there()
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
                tracing::warn!("etcd did not answer, leaving without a word");
            }
        }
    }
}
