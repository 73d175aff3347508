//! The leader's loop: serves the shards that the cluster assigns to this replica.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::SchedulerContext;
use super::fire::FiringRules;
use super::leader_pass::{BATCH, DEFERRABLE_AT_ONCE, LeaderPass};
use super::pending::PendingTicks;
use super::shard_leadership::{LeaderParts, ShardLeadership};
use crate::cluster::Terms;
use crate::domain::Timestamp;
use crate::domain::plan::Plans;
use crate::domain::shard::ShardId;
use crate::runtime::{BatchSize, LoopPause, Random, RunError, Worker};
use crate::telemetry::metrics::LEADER_SHARDS;

/// The longest pause of the loop while this replica leads no shard.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Fires the ticks of the led shards.
pub struct Leader {
    context: SchedulerContext,
    rules: FiringRules,
    random: Random,
    terms: watch::Receiver<Terms>,
    leaderships: BTreeMap<ShardId, ShardLeadership>,
    pending: PendingTicks,
    pace: BatchSize,
    /// The position of the shard that is served first.
    first: usize,
}

impl Leader {
    /// A leader of the shards that the cluster assigns to this replica. `plans` are the plans that
    /// accounts can have.
    pub fn new(context: SchedulerContext, plans: Arc<Plans>, random: Random) -> Self {
        let (terms, rules) = (context.cluster.terms(), FiringRules::new(plans));
        let (leaderships, pending, pace) =
            (BTreeMap::new(), PendingTicks::default(), BatchSize::new(BATCH));
        Self { context, rules, random, terms, leaderships, pending, pace, first: 0 }
    }

    /// Returns the number of shards that it has taken over, as far as it knows.
    pub fn led_shards(&self) -> usize {
        led_shards(&self.leaderships)
    }
}

fn led_shards(leaderships: &BTreeMap<ShardId, ShardLeadership>) -> usize {
    leaderships.values().filter(|leadership| leadership.is_taken()).count()
}

#[async_trait]
impl Worker for Leader {
    async fn run_once(&mut self, now: Timestamp) -> Result<LoopPause, RunError> {
        let Self { context, rules, random, terms, leaderships, pending, pace, first } = self;
        // The first shard changes, so that the same ones are not always last.
        *first = first.wrapping_add(DEFERRABLE_AT_ONCE);
        let parts = LeaderParts { context, rules, random, terms };
        let pass = LeaderPass::new(parts, leaderships, &mut *pending, pace);
        let report = pass.run(now, *first).await;
        LEADER_SHARDS.set(led_shards(leaderships));
        let (is_vain, is_hinted) = (report.is_vain(), report.is_hinted);
        if let Some(error) = report.error {
            if is_vain {
                return Err(error);
            }
            let (unserved_shards, unfired_batches) = (report.unserved, report.unfired);
            tracing::warn!(
                %error,
                unserved_shards,
                unfired_batches,
                "leader pass partly failed, trying again"
            );
        }
        if pending.len() > 0 {
            return Ok(LoopPause::None);
        }
        let wake = leaderships
            .values()
            .map(|leadership| leadership.next)
            .min()
            .unwrap_or(now.plus(MAX_PAUSE));
        Ok(if is_hinted || wake <= now { LoopPause::None } else { LoopPause::Until(wake) })
    }
}
