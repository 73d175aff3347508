//! The leader's loop: takes its shards over, keeps their indexes and fires what is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync::watch;

use super::Context;
use super::fire::{Rules, fire_batch};
use super::index::{BATCH, Comparison, apply_hints, rebuild};
use crate::cluster::{Term, Terms};
use crate::domain::Timestamp;
use crate::domain::plan::Plans;
use crate::domain::shard::ShardId;
use crate::queue::{Index, QueueError};
use crate::runtime::faults::Point;
use crate::runtime::{Pause, RunError, Worker};
use crate::store::Fence;
use crate::telemetry::metrics::LEADER_SHARDS;

/// How long the loop rests when nothing is due soon; bounds how late a lost hint is noticed.
const LONGEST_REST: Duration = Duration::from_secs(5);
/// The most shards served at once: each is a chain of short round trips, and the scheduler's few
/// connections to the store have to do for the sweep and the time too.
const AT_ONCE: usize = 6;
/// How soon a shard that could not be served is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// How soon it is noticed that a term is renewed.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Fires the ticks of the led shards.
pub struct Leader {
    context: Context,
    rules: Rules,
    terms: watch::Receiver<Terms>,
    led: BTreeMap<ShardId, Led>,
    /// Which of them is served first.
    first: usize,
}

/// A shard that is this replica's to lead.
struct Led {
    shard: ShardId,
    term: Term,
    hold: Hold,
    comparison: Comparison,
}

/// What a leader may do in a shard.
#[derive(Clone, Copy)]
enum Hold {
    /// Nothing yet: it has to raise the epoch first.
    Coming,
    /// All there is to do.
    Taken(Fence),
    /// Nothing any more: a newer leader has the shard, or has raised the epoch by a term that had
    /// ended. It says until when the own term was trusted then: whose term is renewed after that
    /// leads by right, and takes the shard back.
    Overtaken(Option<Duration>),
}

/// What all shards of a leader share.
#[derive(Clone, Copy)]
struct Parts<'a> {
    context: &'a Context,
    rules: &'a Rules,
    terms: &'a watch::Receiver<Terms>,
}

impl Parts<'_> {
    fn is_trusted(&self, term: Term) -> bool {
        let monotonic = self.context.clock.monotonic();
        term.trusted_until.is_none_or(|until| monotonic < until)
    }

    /// Whether a term is still there, and trusted: serving shards takes a while, in which they can
    /// go to others, and who raises an epoch then would put out the one who leads.
    fn is_held(&self, shard: ShardId, term: Term) -> bool {
        let held = self.terms.borrow().get(&shard).copied();
        held.is_some_and(|held| held.number == term.number && self.is_trusted(held))
    }
}

impl Leader {
    /// A leader of whatever shards the cluster gives it; `plans` are what accounts can have.
    pub fn new(context: Context, plans: Arc<Plans>) -> Self {
        let terms = context.cluster.terms();
        Self { context, rules: Rules::new(plans), terms, led: BTreeMap::new(), first: 0 }
    }

    /// Begins with the shards of new terms and lets go of those whose term has ended.
    fn follow_terms(&mut self, now: Timestamp) {
        let terms = self.terms.borrow_and_update().clone();
        self.led
            .retain(|shard, led| terms.get(shard).map(|term| term.number) == Some(led.term.number));
        for (shard, term) in terms {
            let comparison = Comparison::rested(now);
            let coming = Led { shard, term, hold: Hold::Coming, comparison };
            self.led.entry(shard).or_insert(coming).term = term;
        }
    }
}

impl Led {
    /// Does what is to be done; says when there is more. `has_turn`: it may do what can wait too.
    /// When the queue has failed, hints may have been lost with its answers, or with itself.
    async fn serve(
        &mut self,
        parts: Parts<'_>,
        now: Timestamp,
        has_turn: bool,
    ) -> Result<Option<Timestamp>, RunError> {
        let served = self.take_over_or_fire(parts, now, has_turn).await;
        if served.as_ref().is_err_and(|error| error.is::<QueueError>()) {
            self.comparison.urge(now);
        }
        served
    }

    /// Takes the shard over if that is to be done, or fires what is due in it; says when the next
    /// tick is due.
    async fn take_over_or_fire(
        &mut self,
        parts: Parts<'_>,
        now: Timestamp,
        has_turn: bool,
    ) -> Result<Option<Timestamp>, RunError> {
        // As it is by now: it may have been renewed, or have ended, while others were served.
        if !parts.is_held(self.shard, self.term) || !parts.context.clock.is_believed() {
            return Ok(Some(now.plus(LOOK_AGAIN)));
        }
        match self.hold {
            Hold::Overtaken(until) if until >= self.term.trusted_until => {
                Ok(Some(now.plus(LOOK_AGAIN)))
            }
            Hold::Coming | Hold::Overtaken(_) => self.take_over(parts, now).await,
            Hold::Taken(fence) => self.fire(parts, fence, now, has_turn).await,
        }
    }

    /// Leads the shard from now on, unless another one has begun to in the same moment.
    async fn take_over(
        &mut self,
        parts: Parts<'_>,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, RunError> {
        let (shard, context) = (self.shard, parts.context);
        if !parts.is_held(shard, self.term) {
            return Ok(Some(now.plus(LOOK_AGAIN)));
        }
        Point::BeforeRaise.reach();
        let epoch = context.store.raise_epoch(shard, &context.replica, now).await?;
        Point::AfterRaise.reach();
        let fence = Fence { shard, epoch };
        self.hold = Hold::Taken(fence);
        tracing::debug!(%shard, epoch = epoch.0, "leading shard");
        self.rebuild(context, fence, now).await?;
        Ok(Some(now))
    }

    async fn rebuild(
        &mut self,
        context: &Context,
        fence: Fence,
        now: Timestamp,
    ) -> Result<(), RunError> {
        match rebuild(context, fence).await? {
            Index::Own(()) => self.comparison = Comparison::rested(now),
            Index::Foreign => self.step_down(fence),
        }
        Ok(())
    }

    fn step_down(&mut self, fence: Fence) {
        let (shard, epoch) = (fence.shard, fence.epoch.0);
        tracing::warn!(%shard, epoch, "a newer leader has the shard, stepping down");
        self.hold = Hold::Overtaken(self.term.trusted_until);
    }

    async fn fire(
        &mut self,
        parts: Parts<'_>,
        fence: Fence,
        now: Timestamp,
        has_turn: bool,
    ) -> Result<Option<Timestamp>, RunError> {
        let (shard, context) = (self.shard, parts.context);
        if apply_hints(context, fence).await? {
            self.comparison.urge(now);
        }
        if self.comparison.is_due(now) && (has_turn || !self.comparison.is_urgent()) {
            self.comparison.go_on(context, fence, now).await?;
        }
        let due = match context.queue.due(shard, fence.epoch, now, BATCH).await? {
            Index::Own(due) => due,
            Index::Foreign => {
                tracing::info!(%shard, "due index missing or of another leader, rebuilding it");
                self.rebuild(context, fence, now).await?;
                return Ok(Some(now));
            }
        };
        if due.schedules.is_empty() {
            return Ok(if self.comparison.is_urgent() { Some(now) } else { due.next });
        }
        let ids: Vec<_> = due.schedules.iter().map(|(schedule, _)| *schedule).collect();
        if !fire_batch(context, parts.rules, fence, now, &ids).await? {
            self.step_down(fence);
        }
        // Whatever else is due by now, the advanced schedules included, is seen at once.
        Ok(Some(now))
    }
}

#[async_trait]
impl Worker for Leader {
    async fn run_once(&mut self, now: Timestamp) -> Result<Pause, RunError> {
        self.follow_terms(now);
        let parts = Parts { context: &self.context, rules: &self.rules, terms: &self.terms };
        let mut all: Vec<_> = self.led.values_mut().collect();
        let count = all.len();
        // Not always the same ones last.
        self.first = (self.first + AT_ONCE) % count.max(1);
        all.rotate_left(self.first);
        // What can wait must not make firing wait: as much of it as is done at once, and no more.
        let all: Vec<_> = (0..)
            .zip(all)
            .map(|(place, led)| led.serve(parts, now, place < AT_ONCE).boxed())
            .collect();
        let mut served = stream::iter(all).buffer_unordered(AT_ONCE);
        let mut wake = now.plus(LONGEST_REST);
        let mut failed = Vec::new();
        while let Some(served) = served.next().await {
            match served {
                Ok(next) => wake = next.map_or(wake, |next| wake.min(next)),
                Err(error) => failed.push(error),
            }
        }
        drop(served);
        let taken = |led: &&Led| matches!(led.hold, Hold::Taken(_));
        LEADER_SHARDS.set(self.led.values().filter(taken).count());
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
