//! The leader's loop: takes its shards over, keeps their indexes and fires what is due.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use super::Context;
use super::fire::{Cadences, fire_batch};
use super::index::{BATCH, apply_hints, compare_page, rebuild};
use crate::cluster::{Term, Terms};
use crate::domain::shard::ShardId;
use crate::domain::{ScheduleId, Timestamp};
use crate::queue::Index;
use crate::runtime::{Pause, RunError, Worker};
use crate::store::Fence;
use crate::telemetry::metrics::LEADER_SHARDS;

/// How long the loop rests when nothing is due soon; bounds how late a lost hint is noticed.
const LONGEST_REST: Duration = Duration::from_secs(5);
/// How often a page of each led shard's index is compared with the store.
const COMPARE_EVERY: Duration = Duration::from_secs(10);

/// Fires the ticks of the led shards.
pub struct Leader {
    context: Context,
    cadences: Cadences,
    terms: watch::Receiver<Terms>,
    led: BTreeMap<ShardId, Led>,
}

/// A shard that this replica leads.
struct Led {
    term: Term,
    /// Absent after a newer leader has fenced this one: nothing can be done until the next term.
    fence: Option<Fence>,
    compare_at: Timestamp,
    compared_to: Option<ScheduleId>,
}

impl Leader {
    /// A leader of whatever shards the cluster gives it.
    pub fn new(context: Context) -> Self {
        let terms = context.cluster.terms();
        Self { context, cadences: Cadences::new(), terms, led: BTreeMap::new() }
    }

    /// Takes over the shards of new terms and lets go of those whose term has ended.
    async fn follow_terms(&mut self, now: Timestamp) -> Result<(), RunError> {
        let terms = self.terms.borrow_and_update().clone();
        self.led
            .retain(|shard, led| terms.get(shard).map(|term| term.number) == Some(led.term.number));
        for (shard, term) in terms {
            if let Some(led) = self.led.get_mut(&shard) {
                led.term = term;
                continue;
            }
            let epoch = self.context.store.raise_epoch(shard, &self.context.replica, now).await?;
            let fence = Fence { shard, epoch };
            rebuild(&self.context, fence).await?;
            tracing::debug!(%shard, epoch = epoch.0, "leading shard");
            let compare_at = now.plus(COMPARE_EVERY);
            self.led.insert(shard, Led { term, fence: Some(fence), compare_at, compared_to: None });
        }
        LEADER_SHARDS.set(self.led.len());
        Ok(())
    }

    /// Fires what is due in one shard; says when the next tick is due.
    async fn serve(
        &mut self,
        shard: ShardId,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, RunError> {
        let Some(led) = self.led.get_mut(&shard) else { return Ok(None) };
        let monotonic = self.context.clock.monotonic();
        let trusted = led.term.trusted_until.is_none_or(|until| monotonic < until);
        let Some(fence) = led.fence.filter(|_| trusted) else { return Ok(None) };
        apply_hints(&self.context, fence).await?;
        if led.compare_at <= now {
            led.compared_to = compare_page(&self.context, fence, led.compared_to).await?;
            led.compare_at = now.plus(COMPARE_EVERY);
        }
        let due = match self.context.queue.due(shard, fence.epoch, now, BATCH).await? {
            Index::Own(due) => due,
            Index::Foreign => {
                tracing::info!(%shard, "due index missing or of another leader, rebuilding it");
                rebuild(&self.context, fence).await?;
                return Ok(Some(now));
            }
        };
        if due.schedules.is_empty() {
            return Ok(due.next);
        }
        let ids: Vec<_> = due.schedules.iter().map(|(schedule, _)| *schedule).collect();
        if !fire_batch(&self.context, &self.cadences, fence, now, &ids).await? {
            tracing::warn!(%shard, epoch = fence.epoch.0, "a newer leader has the shard, stepping down");
            led.fence = None;
        }
        // Whatever else is due by now, the advanced schedules included, is seen at once.
        Ok(Some(now))
    }
}

#[async_trait]
impl Worker for Leader {
    async fn run_once(&mut self, now: Timestamp) -> Result<Pause, RunError> {
        self.follow_terms(now).await?;
        let mut wake = now.plus(LONGEST_REST);
        let shards: Vec<_> = self.led.keys().copied().collect();
        let mut failed = None;
        for shard in shards {
            // A shard that fails must not keep the others from firing.
            match self.serve(shard, now).await {
                Ok(next) => wake = next.map_or(wake, |next| wake.min(next)),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) => Err(error),
            None if wake <= now => Ok(Pause::None),
            None => Ok(Pause::Until(wake)),
        }
    }
}
