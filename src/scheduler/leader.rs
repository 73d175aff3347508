//! The leader's loop: takes its shards over, keeps their indexes and fires what is due.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, stream};
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
/// The most shards served at once: each is a chain of short round trips, and few of the store's
/// connections are the scheduler's.
const AT_ONCE: usize = 8;
/// How soon a shard that could not be served is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// How often a page of each led shard's index is compared with the store.
const COMPARE_EVERY: Duration = Duration::from_secs(10);

/// Fires the ticks of the led shards.
pub struct Leader {
    context: Context,
    cadences: Cadences,
    terms: watch::Receiver<Terms>,
    led: BTreeMap<ShardId, Led>,
}

/// A shard that is this replica's to lead.
struct Led {
    shard: ShardId,
    term: Term,
    hold: Hold,
    compare_at: Timestamp,
    compared_to: Option<ScheduleId>,
}

/// What a leader may do in a shard.
#[derive(Clone, Copy)]
enum Hold {
    /// Nothing yet: it has to raise the epoch first.
    Coming,
    /// All there is to do.
    Taken(Fence),
    /// Nothing any more, until its next term: a newer leader has fenced it.
    Lost,
}

impl Leader {
    /// A leader of whatever shards the cluster gives it.
    pub fn new(context: Context) -> Self {
        let terms = context.cluster.terms();
        Self { context, cadences: Cadences::new(), terms, led: BTreeMap::new() }
    }

    /// Begins with the shards of new terms and lets go of those whose term has ended.
    fn follow_terms(&mut self, now: Timestamp) {
        let terms = self.terms.borrow_and_update().clone();
        self.led
            .retain(|shard, led| terms.get(shard).map(|term| term.number) == Some(led.term.number));
        for (shard, term) in terms {
            let coming =
                Led { shard, term, hold: Hold::Coming, compare_at: now, compared_to: None };
            self.led.entry(shard).or_insert(coming).term = term;
        }
        LEADER_SHARDS.set(self.led.len());
    }
}

impl Led {
    /// Takes the shard over if that has not been done, and fires what is due in it; says when the
    /// next tick is due.
    async fn serve(
        &mut self,
        context: &Context,
        cadences: &Cadences,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, RunError> {
        let monotonic = context.clock.monotonic();
        let trusted = self.term.trusted_until.is_none_or(|until| monotonic < until)
            && context.clock.is_believed();
        if !trusted {
            return Ok(None);
        }
        match self.hold {
            Hold::Coming => self.take_over(context, now).await,
            Hold::Taken(fence) => self.fire(context, cadences, fence, now).await,
            Hold::Lost => Ok(None),
        }
    }

    async fn take_over(
        &mut self,
        context: &Context,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, RunError> {
        let shard = self.shard;
        let epoch = context.store.raise_epoch(shard, &context.replica, now).await?;
        let fence = Fence { shard, epoch };
        self.hold = Hold::Taken(fence);
        self.compare_at = now.plus(COMPARE_EVERY);
        tracing::debug!(%shard, epoch = epoch.0, "leading shard");
        rebuild(context, fence).await?;
        Ok(Some(now))
    }

    async fn fire(
        &mut self,
        context: &Context,
        cadences: &Cadences,
        fence: Fence,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, RunError> {
        let shard = self.shard;
        apply_hints(context, fence).await?;
        if self.compare_at <= now {
            self.compared_to = compare_page(context, fence, self.compared_to).await?;
            self.compare_at = now.plus(COMPARE_EVERY);
        }
        let due = match context.queue.due(shard, fence.epoch, now, BATCH).await? {
            Index::Own(due) => due,
            Index::Foreign => {
                tracing::info!(%shard, "due index missing or of another leader, rebuilding it");
                let built = rebuild(context, fence).await?;
                // A newer leader's index: this one's term is about to end.
                return Ok(Some(if built == Index::Foreign { now.plus(RETRY) } else { now }));
            }
        };
        if due.schedules.is_empty() {
            return Ok(due.next);
        }
        let ids: Vec<_> = due.schedules.iter().map(|(schedule, _)| *schedule).collect();
        if !fire_batch(context, cadences, fence, now, &ids).await? {
            tracing::warn!(%shard, epoch = fence.epoch.0, "a newer leader has the shard, stepping down");
            self.hold = Hold::Lost;
        }
        // Whatever else is due by now, the advanced schedules included, is seen at once.
        Ok(Some(now))
    }
}

#[async_trait]
impl Worker for Leader {
    async fn run_once(&mut self, now: Timestamp) -> Result<Pause, RunError> {
        self.follow_terms(now);
        let (context, cadences) = (&self.context, &self.cadences);
        let all: Vec<_> =
            self.led.values_mut().map(|led| led.serve(context, cadences, now).boxed()).collect();
        let count = all.len();
        let mut served = stream::iter(all).buffer_unordered(AT_ONCE);
        let mut wake = now.plus(LONGEST_REST);
        let mut failed = Vec::new();
        while let Some(served) = served.next().await {
            match served {
                Ok(next) => wake = next.map_or(wake, |next| wake.min(next)),
                Err(error) => failed.push(error),
            }
        }
        if let Some(error) = failed.pop() {
            if failed.len() + 1 == count {
                return Err(error);
            }
            // Shards that fail must not keep the others from firing.
            tracing::warn!(%error, shards = failed.len() + 1, "shards not served, trying again");
            wake = wake.min(now.plus(RETRY));
        }
        Ok(if wake <= now { Pause::None } else { Pause::Until(wake) })
    }
}
