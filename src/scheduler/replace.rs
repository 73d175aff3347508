//! Replaces leaders that die while the cluster is unreachable.
//!
//! Normally the cluster detects that a leader has died, and assigns its shards to other replicas.
//! While the cluster does not answer, the store is used instead: each replica renews a lease there,
//! and a shard whose leader has no lease is taken over by a replica that is also cut off from the
//! cluster. The epoch is compared and set. So only one replica wins, and the writes of the previous
//! leader are rejected.
//!
//! A leader is replaced within the claim time and [`EVERY`], plus [`TIMEOUT`] if etcd failed at
//! the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;

use super::SchedulerContext;
use crate::cluster::Replacement;
use crate::domain::Timestamp;
use crate::domain::shard::ShardId;
use crate::domain::shard_assignment::assign_shards;
use crate::runtime::{LoopPause, RunError, Worker};
use crate::store::{Leadership, ReplicaLease, ShardLeader};

/// The longest time between two renewals of the lease, and between two searches for dead leaders.
const EVERY: Duration = Duration::from_secs(2);
/// The number of renewals within the duration of a lease.
const RENEWALS: u32 = 5;
/// The time for which the cluster must be silent before the leases in the store count. A replica
/// that joins the cluster, or connects to another of its servers, needs less.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Keeps this replica's lease in the store, which also says which servers the replica works
/// without. If the replica leads, reads the leases of the others, and takes over the shards of
/// leaders that die while the cluster is unreachable.
pub struct LeaderReplacer {
    context: SchedulerContext,
    lease_time: Duration,
    /// `true` if the replica takes part in leading shards.
    leads: bool,
    /// The time since which the cluster has not answered, on the monotonic clock.
    away_since: Option<Duration>,
    /// The leaders that this replica replaces.
    replaced: BTreeMap<ShardId, Replacement>,
}

impl LeaderReplacer {
    /// A replacer whose lease in the store lasts `lease_time` after each renewal.
    pub fn new(context: SchedulerContext, lease_time: Duration, leads: bool) -> Self {
        Self { context, lease_time, leads, away_since: None, replaced: BTreeMap::new() }
    }

    /// Returns `true` if the replica leads and the cluster has been silent for so long that the
    /// leases in the store count.
    fn is_cut_off(&mut self, is_away: bool) -> bool {
        let now = self.context.clock.monotonic();
        self.away_since = is_away.then(|| self.away_since.unwrap_or(now));
        let is_long = |since| now.saturating_sub(since) >= TIMEOUT;
        self.leads && self.away_since.is_some_and(is_long)
    }

    /// Returns the leaders to replace: those that this replica already replaces, and its part of
    /// those that have died. It also takes its own shards that it does not lead, because no other
    /// replica will: the cluster failed during their handover.
    fn choose(&self, found: &Leadership) -> BTreeMap<ShardId, Replacement> {
        let own = self.context.replica.as_str();
        let terms = self.context.cluster.terms().borrow().clone();
        let alive: BTreeSet<&str> = found.alive.iter().map(|lease| lease.name.as_str()).collect();
        let cut_off = found.alive.iter().filter(|lease| lease.is_cut_off);
        let takers: Vec<&str> = cut_off.map(|lease| lease.name.as_str()).collect();
        let shards = u16::try_from(found.leaders.len()).unwrap_or(u16::MAX);
        let taker = assign_shards(&takers, shards);
        let choose = |(position, leader): (usize, &ShardLeader)| {
            let ShardLeader { shard, epoch, replica } = leader.clone();
            let term = terms.get(&shard);
            if replica == own
                && let Some(term) = term
            {
                let goes_on = term.replaces.is_some();
                return self.replaced.get(&shard).filter(|_| goes_on).cloned();
            }
            if replica != own && alive.contains(replica.as_str()) {
                return None;
            }
            let is_mine = taker.get(position).is_some_and(|taker| takers[*taker] == own);
            let replacement = Replacement { shard, epoch, of: replica };
            (is_mine || replacement.of == own).then_some(replacement)
        };
        let chosen = found.leaders.iter().enumerate().filter_map(choose);
        chosen.map(|replacement| (replacement.shard, replacement)).collect()
    }

    /// Logs the leaders that this replica starts to replace.
    fn log_replacements(&self, chosen: &BTreeMap<ShardId, Replacement>) {
        let new = chosen.values().filter(|one| self.replaced.get(&one.shard) != Some(one));
        let mut shards: BTreeMap<&str, u32> = BTreeMap::new();
        for one in new {
            *shards.entry(&one.of).or_default() += 1;
        }
        for (leader, shards) in shards {
            if leader == self.context.replica {
                tracing::warn!(
                    shards,
                    "term ended without etcd, taking back this replica's shards through the store"
                );
                continue;
            }
            tracing::warn!(
                leader,
                shards,
                "leader died without etcd, taking over its shards through the store"
            );
        }
    }
}

#[async_trait]
impl Worker for LeaderReplacer {
    async fn run_once(&mut self, now: Timestamp) -> Result<LoopPause, RunError> {
        let without_cluster = !self.context.cluster.is_trusted();
        let without_queue = self.context.queue.is_away();
        let is_cut_off = self.is_cut_off(without_cluster);
        let store = self.context.store.clone();
        let name = self.context.replica.clone();
        let until = self.context.clock.after(now, self.lease_time);
        let lease = ReplicaLease { name, is_cut_off, without_cluster, without_queue, until };
        store.renew_replica(&lease, now).await?;
        // The leases of the others are judged by the store's time, and renewed by it: a lease that
        // is renewed by a time that has stood still only ends earlier.
        if self.leads && self.context.clock.is_trusted() {
            let found = store.leadership(now).await?;
            let lacks_queue =
                |other: &ReplicaLease| other.without_queue && other.name != lease.name;
            let others_lack_queue = found.alive.iter().any(lacks_queue);
            self.context.others_lack_queue.store(others_lack_queue, Ordering::Relaxed);
            if is_cut_off {
                let chosen = self.choose(&found);
                self.log_replacements(&chosen);
                self.context.cluster.replace(chosen.values().cloned().collect());
                self.replaced = chosen;
            }
        }
        Ok(LoopPause::For(EVERY.min(self.lease_time / RENEWALS)))
    }
}
