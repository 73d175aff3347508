//! Replicas of one cluster, and the invariants between them.

pub use std::collections::{BTreeMap, BTreeSet};
pub use std::sync::Arc;
pub use std::time::{Duration, Instant};

pub use punctual::cluster::{SharedCluster, Terms};
pub use punctual::domain::shard::ShardId;
pub use punctual::runtime::{Clock, Random, Tasks};

pub use crate::harness::wait::until;

/// The number of shards.
pub const SHARDS: u16 = 12;

/// A replica of the cluster.
pub struct Replica {
    pub name: String,
    pub cluster: SharedCluster,
    pub clock: Clock,
    pub tasks: Tasks,
}

impl Replica {
    /// Returns the terms that the replica trusts now.
    pub fn trusted(&self) -> Terms {
        trusted(&self.clock, &self.cluster)
    }

    /// Returns the shards that the replica trusts to lead.
    pub fn leads(&self) -> BTreeSet<ShardId> {
        self.trusted().into_keys().collect()
    }

    /// Kills the replica as a power loss would.
    pub async fn kill(&self) {
        self.tasks.finish(Duration::ZERO).await;
    }
}

fn trusted(clock: &Clock, cluster: &SharedCluster) -> Terms {
    let mut terms = cluster.terms().borrow().clone();
    let now = clock.monotonic();
    terms.retain(|_, term| term.trusted_until.is_none_or(|until| now < until));
    terms
}

/// Returns `true` if each shard has exactly one leader among `replicas`.
pub fn all_led(replicas: &[&Replica]) -> bool {
    let led: Vec<_> = replicas.iter().flat_map(|replica| replica.leads()).collect();
    led.len() == usize::from(SHARDS)
        && led.iter().collect::<BTreeSet<_>>().len() == usize::from(SHARDS)
}

/// Waits until each shard has exactly one leader among `replicas`, and the shards are divided
/// evenly.
pub async fn evenly_led(replicas: &[&Replica]) {
    until("all shards are led evenly", async || {
        let most = usize::from(SHARDS).div_ceil(replicas.len());
        let even = replicas.iter().all(|replica| replica.leads().len() <= most);
        (all_led(replicas) && even).then_some(())
    })
    .await;
}

/// Checks continuously that no two replicas trust to lead the same shard.
pub struct Referee {
    watching: tokio::task::JoinHandle<()>,
}

impl Referee {
    pub fn of(replicas: &[&Replica]) -> Self {
        let all: Vec<_> = replicas
            .iter()
            .map(|replica| (replica.clock.clone(), replica.cluster.clone()))
            .collect();
        let watching = tokio::spawn(async move {
            loop {
                for (index, (clock, cluster)) in all.iter().enumerate() {
                    let first = trusted(clock, cluster);
                    for (_, other) in &all[index + 1..] {
                        let second = trusted(clock, other);
                        let again = trusted(clock, cluster);
                        // A term that is there before and after was also there in between.
                        let both = first.iter().find(|(shard, term)| {
                            let stayed = again.get(shard).map(|term| term.number);
                            second.contains_key(shard) && stayed == Some(term.number)
                        });
                        assert!(both.is_none(), "two trust to lead {both:?}");
                    }
                }
                crate::harness::wait::live_for(Duration::from_millis(1)).await;
            }
        });
        Self { watching }
    }

    /// Ends the check.
    ///
    /// # Panics
    /// If two replicas led the same shard.
    pub async fn no_shard_was_led_twice(self) {
        self.watching.abort();
        if let Err(ended) = self.watching.await {
            assert!(ended.is_cancelled(), "a shard was led by two");
        }
    }
}
