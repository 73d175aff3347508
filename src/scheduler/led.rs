//! A shard that is this replica's to lead: taking it over, keeping its index, saying what is due.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;

use super::Context;
use super::fire::Rules;
use super::index::{Comparison, apply_hints, rebuild};
use crate::cluster::{Term, Terms};
use crate::domain::Timestamp;
use crate::domain::shard::ShardId;
use crate::queue::{Due, Index, Member, QueueError};
use crate::runtime::faults::Point;
use crate::runtime::{Random, RunError};
use crate::store::Fence;
use crate::telemetry::metrics::{ELECTIONS, HIGHEST_EPOCH};

/// How long a shard rests in which nothing is due soon; bounds how late a lost hint is noticed.
const LONGEST_REST: Duration = Duration::from_secs(5);
/// How soon it is noticed that a term is renewed.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// The most due entries that all shards of a leader bring together, about 100 MB. Rotation over accounts
/// sees only what was brought, so this is far more than one account usually has due at one instant.
const MOST_DUE: usize = 1_000_000;
/// The most that one shard brings at once: the queue's server is busy with the answer for so long.
const MOST_DUE_OF_SHARD: usize = 200_000;
/// The least: a leader of many shards has little memory for each.
const LEAST_DUE_OF_SHARD: usize = 20_000;
/// How long a shard rests whose entries that are due did not all come at once: the same instant's are
/// read again.
const MORE_DUE: Duration = Duration::from_secs(1);
/// How long a shard rests that could not be served, at most, the first time; each time it is twice
/// as long.
const FASTEST_RETRY: Duration = Duration::from_millis(200);
/// The longest such rest.
const SLOWEST_RETRY: Duration = Duration::from_secs(2);

/// A shard that is this replica's to lead.
pub(super) struct Led {
    pub(super) shard: ShardId,
    pub(super) term: Term,
    hold: Hold,
    comparison: Comparison,
    /// Up to when what is due has been brought.
    brought_up_to: Option<Timestamp>,
    /// When it is to be served again, if no hint comes first.
    pub(super) next: Timestamp,
    /// When a tick of it is due, as far as that is known: what else it waits for is a turn, which it
    /// has in another round.
    pub(super) due: Timestamp,
    /// How often in a row it could not be served. It rests then, whatever hints come.
    failures: u32,
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
pub(super) struct Parts<'a> {
    pub(super) context: &'a Context,
    pub(super) rules: &'a Rules,
    pub(super) terms: &'a watch::Receiver<Terms>,
    pub(super) random: &'a Random,
}

/// What a shard may do when it is served.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    /// Whether it may do what can wait, too.
    pub(super) is_long: bool,
    /// Whether all that was brought has been fired.
    pub(super) is_through: bool,
    /// The most due entries that it may bring.
    pub(super) most: usize,
}

/// The most due entries that one of so many shards may bring.
pub(super) fn most_due(shards: usize) -> usize {
    (MOST_DUE / shards.max(1)).clamp(LEAST_DUE_OF_SHARD, MOST_DUE_OF_SHARD)
}

impl Parts<'_> {
    fn is_trusted(&self, term: Term) -> bool {
        let monotonic = self.context.clock.monotonic();
        term.trusted_until.is_none_or(|until| monotonic < until)
    }

    /// Whether a term is still there: serving shards takes a while, in which they can go to others.
    pub(super) fn is_there(&self, shard: ShardId, term: Term) -> bool {
        self.terms.borrow().get(&shard).is_some_and(|held| held.number == term.number)
    }

    /// Whether it is still there, and trusted: who raises an epoch otherwise may put out the one who
    /// leads.
    fn is_held(&self, shard: ShardId, term: Term) -> bool {
        let held = self.terms.borrow().get(&shard).copied();
        held.is_some_and(|held| held.number == term.number && self.is_trusted(held))
    }
}

impl Led {
    /// A shard of a new term.
    pub(super) fn new(shard: ShardId, term: Term, now: Timestamp) -> Self {
        let comparison = Comparison::urgent(now);
        Self {
            shard,
            term,
            hold: Hold::Coming,
            comparison,
            brought_up_to: None,
            next: now,
            due: now,
            failures: 0,
        }
    }

    /// Whether this replica leads it by now.
    pub(super) fn is_taken(&self) -> bool {
        matches!(self.hold, Hold::Taken(_))
    }

    /// Whether it rests because it could not be served.
    pub(super) fn rests(&self, now: Timestamp) -> bool {
        self.failures > 0 && now < self.next
    }

    /// By what its writes prove that this replica leads it, if it does by now.
    pub(super) fn fence(&self) -> Option<Fence> {
        match self.hold {
            Hold::Taken(fence) => Some(fence),
            Hold::Coming | Hold::Overtaken(_) => None,
        }
    }

    /// Does what is to be done, and brings what is due: only what has not been brought before, as long
    /// as that waits to be fired. `has_turn`: it may do what can wait too. If that cannot be done, or
    /// panics, the shard rests. When the queue has failed, hints may have been lost with its answers,
    /// or with itself.
    pub(super) async fn serve(
        &mut self,
        parts: Parts<'_>,
        now: Timestamp,
        turn: Turn,
    ) -> Result<Vec<(Member, Timestamp)>, RunError> {
        let served = AssertUnwindSafe(self.take_over_or_look(parts, now, turn));
        let served = served.catch_unwind().await;
        match served.unwrap_or_else(|_| Err("serving a shard panicked".into())) {
            Ok(Due { schedules, next }) => {
                let longest = now.plus(LONGEST_REST);
                self.due = next.map_or(longest, |next| next.min(longest));
                let waits_for_turn = self.is_taken() && self.comparison.is_urgent();
                self.next = if waits_for_turn { now } else { self.due };
                if schedules.is_empty() {
                    self.failures = 0;
                }
                Ok(schedules)
            }
            Err(error) => {
                if error.is::<QueueError>() {
                    self.comparison.urge(now);
                }
                self.fail(parts);
                Err(error)
            }
        }
    }

    /// What was brought has been fired: whatever else is due by now is looked for at once.
    pub(super) fn has_fired(&mut self, now: Timestamp) {
        self.failures = 0;
        self.look_again(now);
    }

    /// What is due is looked for at once.
    pub(super) fn look_again(&mut self, now: Timestamp) {
        (self.due, self.next) = (now, now);
    }

    /// Rests, longer each time.
    pub(super) fn fail(&mut self, parts: Parts<'_>) {
        let now = parts.context.clock.now();
        if self.rests(now) {
            return;
        }
        let rest = rest(self.failures, parts.random.unit());
        self.failures = self.failures.saturating_add(1);
        self.next = now.plus(rest);
        self.due = self.next;
    }

    /// Takes the shard over if that is to be done, or says what is due in it, and when the next tick is.
    async fn take_over_or_look(
        &mut self,
        parts: Parts<'_>,
        now: Timestamp,
        turn: Turn,
    ) -> Result<Due, RunError> {
        // As it is by now: it may have been renewed, or have ended, while others were served.
        let is_there = parts.is_there(self.shard, self.term) && parts.context.clock.is_believed();
        let next = match self.hold {
            // Trusted or not: while the cluster is away its writes prove that it leads, and the first
            // one that is fenced, or an index of a newer leader, that it does no longer.
            Hold::Taken(fence) if is_there => return self.look(parts, fence, now, turn).await,
            Hold::Coming if is_there => self.take_over(parts, now).await?,
            Hold::Overtaken(until) if is_there && until < self.term.trusted_until => {
                self.take_over(parts, now).await?
            }
            _ => now.plus(LOOK_AGAIN),
        };
        Ok(Due { schedules: Vec::new(), next: Some(next) })
    }

    /// Leads the shard from now on, unless another one has begun to in the same moment. When to look
    /// at it again.
    async fn take_over(&mut self, parts: Parts<'_>, now: Timestamp) -> Result<Timestamp, RunError> {
        let (shard, context) = (self.shard, parts.context);
        if !parts.is_held(shard, self.term) {
            return Ok(now.plus(LOOK_AGAIN));
        }
        Point::BeforeRaise.reach();
        let epoch = match self.term.replaces {
            None => Some(context.store.raise_epoch(shard, &context.replica, now).await?),
            Some(seen) => context.store.replace_leader(shard, seen, &context.replica, now).await?,
        };
        let Some(epoch) = epoch else {
            self.hold = Hold::Overtaken(self.term.trusted_until);
            return Ok(now.plus(LOOK_AGAIN));
        };
        Point::AfterRaise.reach();
        let fence = Fence { shard, epoch };
        self.hold = Hold::Taken(fence);
        ELECTIONS.add(1);
        HIGHEST_EPOCH.raise_to(epoch.0);
        tracing::debug!(%shard, epoch = epoch.0, "leading shard");
        // What the leader before has kept serves until it has been compared with the store, page
        // after page: ticks do not wait until a large index is built. Also if the answer was lost.
        self.comparison = Comparison::urgent(now);
        if !matches!(context.queue.adopt(shard, epoch).await, Ok(Index::Own(()))) {
            self.rebuild(context, fence, now).await?;
        }
        Ok(now)
    }

    /// Builds the index anew. What a user changes while the ticks are read may be told to the leader
    /// before, who still has the index: so it is compared with the store then.
    async fn rebuild(
        &mut self,
        context: &Context,
        fence: Fence,
        now: Timestamp,
    ) -> Result<(), RunError> {
        match rebuild(context, fence).await? {
            Index::Own(()) => self.comparison = Comparison::urgent(now),
            Index::Foreign => self.step_down(fence),
        }
        Ok(())
    }

    /// Leads the shard no more.
    pub(super) fn step_down(&mut self, fence: Fence) {
        let (shard, epoch) = (fence.shard, fence.epoch.0);
        tracing::warn!(%shard, epoch, "a newer leader has the shard, stepping down");
        self.hold = Hold::Overtaken(self.term.trusted_until);
    }

    async fn look(
        &mut self,
        parts: Parts<'_>,
        fence: Fence,
        now: Timestamp,
        Turn { is_long, is_through, most }: Turn,
    ) -> Result<Due, RunError> {
        let (shard, context) = (self.shard, parts.context);
        if apply_hints(context, fence).await? {
            self.comparison.urge(now);
        }
        if self.comparison.is_due(now) && (is_long || !self.comparison.is_urgent()) {
            self.comparison.go_on(context, fence, now).await?;
        }
        let after = self.brought_up_to.filter(|_| !is_through);
        let due = context.queue.due(shard, fence.epoch, (after, now), most).await?;
        let Index::Own(mut due) = due else {
            tracing::info!(%shard, "due index missing or of another leader, rebuilding it");
            self.rebuild(context, fence, now).await?;
            return Ok(Due { schedules: Vec::new(), next: Some(now) });
        };
        self.brought_up_to = Some(now);
        if due.schedules.len() == most
            && let Some((_, last)) = due.schedules.last()
        {
            self.brought_up_to = Some(last.minus(Duration::from_millis(1)));
            due.next = Some(now.plus(MORE_DUE));
        }
        Ok(due)
    }
}

/// How long a shard rests after it could not be served, when it had failed so often before. No two
/// shards that fail together are tried together for long; `chance` is from 0 to 1.
fn rest(failures: u32, chance: f64) -> Duration {
    let longest = FASTEST_RETRY.saturating_mul(1 << failures.min(10)).min(SLOWEST_RETRY);
    longest.mul_f64(0.5 + chance / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_of_few_shards_brings_more_of_each() {
        assert_eq!([0, 1, 5, 10, 64].map(most_due), [200_000, 200_000, 200_000, 100_000, 20_000]);
    }

    #[test]
    fn rests_grow_up_to_a_bound_and_differ() {
        let ms = |failures, chance| rest(failures, chance).as_millis();
        assert_eq!([ms(0, 0.0), ms(0, 1.0)], [100, 200]);
        assert_eq!([ms(1, 1.0), ms(3, 1.0), ms(4, 1.0)], [400, 1_600, 2_000]);
        assert_eq!([ms(u32::MAX, 0.0), ms(u32::MAX, 1.0)], [1_000, 2_000]);
    }
}
