//! A shard that this replica is to lead: taking it over, maintaining its due index and reading its
//! due ticks.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;

use super::SchedulerContext;
use super::fire::FiringRules;
use super::index::{IndexComparison, apply_hints, rebuild};
use crate::cluster::{Term, Terms};
use crate::domain::Timestamp;
use crate::domain::shard::{Epoch, ShardId};
use crate::queue::{DueTicks, IndexAnswer, OwnedSchedule, QueueError};
use crate::runtime::faults::FaultPoint;
use crate::runtime::{Random, RunError};
use crate::store::Fence;
use crate::telemetry::metrics::{ELECTIONS, HIGHEST_EPOCH};

/// The longest pause of a shard without ticks that are due soon. It bounds how late a lost hint is
/// noticed.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// The pause before a shard without leadership looks again whether its term was renewed.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// The maximum number of due entries that all shards of a leader read together, about 100 MB.
/// Accounts take turns only among the entries that were read, so this is far more than one account
/// usually has due at one instant.
const MAX_DUE: usize = 1_000_000;
/// The maximum number of due entries that one shard reads at once. The queue's server is busy until
/// it has sent them.
const MAX_DUE_OF_SHARD: usize = 200_000;
/// The minimum of that limit for one shard. A leader of many shards has little memory for each.
const MIN_DUE_OF_SHARD: usize = 20_000;
/// The pause of a shard whose due entries did not all fit into one read. The next read starts with
/// the last instant again.
const MORE_DUE: Duration = Duration::from_secs(1);
/// The longest back-off after the first failure to serve a shard. It doubles with each further one.
const FASTEST_RETRY: Duration = Duration::from_millis(200);
/// The upper bound of the doubled back-off.
const SLOWEST_RETRY: Duration = Duration::from_secs(2);

/// A shard that this replica is to lead.
pub(super) struct ShardLeadership {
    pub(super) shard: ShardId,
    pub(super) term: Term,
    write_right: WriteRight,
    comparison: IndexComparison,
    /// The time up to which due entries have been read.
    brought_up_to: Option<Timestamp>,
    /// The time at which the shard is served again, if no hint arrives first.
    pub(super) next: Timestamp,
    /// The time of the shard's next tick, as far as it is known. Unlike `next` it ignores a pending
    /// comparison, which runs in another pass.
    pub(super) due: Timestamp,
    /// The number of consecutive failures. After a failure the shard backs off, even if hints
    /// arrive.
    failures: u32,
}

/// The right of a leader to write in a shard.
#[derive(Clone, Copy)]
enum WriteRight {
    /// The leader may not write yet, because it has not raised the epoch. `is_asked` is `true` if
    /// it has asked the store to raise it and the outcome is unknown.
    Pending { is_asked: bool },
    /// The leader may write with this fence.
    Granted(Fence),
    /// The leader may not write any more, because another replica has raised the epoch. That is
    /// the new leader, or a replica whose term had already ended. The value is the end of this
    /// replica's trust in its own term at that time. If the trust is extended later, the term was
    /// renewed: this replica is the rightful leader and takes the shard back.
    Superseded(Option<Duration>),
}

/// The resources that all shards of a leader share.
#[derive(Clone, Copy)]
pub(super) struct LeaderParts<'a> {
    pub(super) context: &'a SchedulerContext,
    pub(super) rules: &'a FiringRules,
    pub(super) terms: &'a watch::Receiver<Terms>,
    pub(super) random: &'a Random,
}

/// The limits on the work of a shard in one turn.
#[derive(Clone, Copy)]
pub(super) struct ShardTurn {
    /// `true` if it may also do work that can wait.
    pub(super) may_do_deferrable: bool,
    /// `true` if all entries that it has read have been fired.
    pub(super) has_fired_all: bool,
    /// The maximum number of due entries that it may read.
    pub(super) most: usize,
}

/// Returns the maximum number of due entries that each of this number of shards may read.
pub(super) fn most_due(shards: usize) -> usize {
    (MAX_DUE / shards.max(1)).clamp(MIN_DUE_OF_SHARD, MAX_DUE_OF_SHARD)
}

impl LeaderParts<'_> {
    /// Returns a term as it is now, if it still exists. It can end while other shards are served.
    fn present(&self, shard: ShardId, term: Term) -> Option<Term> {
        self.terms.borrow().get(&shard).copied().filter(|held| held.number == term.number)
    }

    /// Returns `true` if the term still exists and is trusted. A replica that raises the epoch
    /// without such a term may depose the rightful leader.
    fn is_held(&self, shard: ShardId, term: Term) -> bool {
        let is_trusted = |until| self.context.clock.monotonic() < until;
        self.present(shard, term).is_some_and(|held| held.trusted_until.is_none_or(is_trusted))
    }
}

impl ShardLeadership {
    /// A shard of a new term.
    pub(super) fn new(shard: ShardId, term: Term, now: Timestamp) -> Self {
        let comparison = IndexComparison::without_pause(now);
        Self {
            shard,
            term,
            write_right: WriteRight::Pending { is_asked: false },
            comparison,
            brought_up_to: None,
            next: now,
            due: now,
            failures: 0,
        }
    }

    /// Returns `true` if this replica leads the shard.
    pub(super) fn is_taken(&self) -> bool {
        matches!(self.write_right, WriteRight::Granted(_))
    }

    /// Returns `true` while the shard backs off after a failure.
    pub(super) fn is_backing_off(&self, now: Timestamp) -> bool {
        self.failures > 0 && now < self.next
    }

    /// Returns the fence that proves this replica's leadership to the store, if it leads the shard.
    pub(super) fn fence(&self) -> Option<Fence> {
        match self.write_right {
            WriteRight::Granted(fence) => Some(fence),
            WriteRight::Pending { .. } | WriteRight::Superseded(_) => None,
        }
    }

    /// Does the pending work of the shard and returns its due entries. While entries of earlier
    /// reads wait to be fired, it returns only newer ones. If this fails or panics, the shard backs
    /// off. After a failure of the queue the index is compared with the store, because hints may be
    /// lost.
    pub(super) async fn serve(
        &mut self,
        parts: LeaderParts<'_>,
        now: Timestamp,
        turn: ShardTurn,
    ) -> Result<Vec<(OwnedSchedule, Timestamp)>, RunError> {
        let served = AssertUnwindSafe(self.take_over_or_look(parts, now, turn));
        let served = served.catch_unwind().await;
        match served.unwrap_or_else(|_| Err("serving a shard panicked".into())) {
            Ok(DueTicks { schedules, next }) => {
                let longest = now.plus(MAX_PAUSE);
                self.due = next.map_or(longest, |next| next.min(longest));
                let waits_for_turn =
                    self.may_read_index(parts) && self.comparison.runs_without_pause;
                self.next = if waits_for_turn {
                    self.comparison.at.max(now).min(self.due)
                } else {
                    self.due
                };
                if schedules.is_empty() {
                    self.failures = 0;
                }
                Ok(schedules)
            }
            Err(error) => {
                if error.is::<QueueError>() {
                    self.comparison.request_full(now);
                }
                self.fail(parts);
                Err(error)
            }
        }
    }

    /// Resets the back-off after all entries were fired, and looks for more due entries at once.
    pub(super) fn reset_after_firing(&mut self, now: Timestamp) {
        self.failures = 0;
        self.look_again(now);
    }

    /// Makes the shard due for another look at once.
    pub(super) fn look_again(&mut self, now: Timestamp) {
        (self.due, self.next) = (now, now);
    }

    /// Starts a back-off, longer after each failure.
    pub(super) fn fail(&mut self, parts: LeaderParts<'_>) {
        let now = parts.context.clock.now();
        if self.is_backing_off(now) {
            return;
        }
        let back_off = back_off(self.failures, parts.random.unit());
        self.failures = self.failures.saturating_add(1);
        self.next = now.plus(back_off);
        self.due = self.next;
    }

    /// Returns `true` if the term still exists and the time is known.
    fn has_live_term(&self, parts: LeaderParts<'_>) -> bool {
        parts.present(self.shard, self.term).is_some() && parts.context.clock.is_trusted()
    }

    /// Returns `true` if the shard's index may be read and compared. Otherwise the shard must not
    /// be served again at once, because its turn would change nothing.
    fn may_read_index(&self, parts: LeaderParts<'_>) -> bool {
        self.is_taken() && self.has_live_term(parts)
    }

    /// Takes over the shard if that is pending. Otherwise returns its due entries and the next
    /// tick.
    async fn take_over_or_look(
        &mut self,
        parts: LeaderParts<'_>,
        now: Timestamp,
        turn: ShardTurn,
    ) -> Result<DueTicks, RunError> {
        // This is checked now: the term may have been renewed or ended while other shards were
        // served.
        let is_there = self.has_live_term(parts);
        let next = match self.write_right {
            // This does not depend on trust: while the cluster is unavailable, each accepted write
            // proves the leadership, and a fenced write or an index of a newer leader disproves it.
            WriteRight::Granted(fence) if is_there => {
                return self.read_due(parts, fence, now, turn).await;
            }
            WriteRight::Pending { .. } if is_there => self.take_over(parts, now).await?,
            WriteRight::Superseded(until) if is_there && until < self.term.trusted_until => {
                self.take_over(parts, now).await?
            }
            _ => now.plus(LOOK_AGAIN),
        };
        Ok(DueTicks { schedules: Vec::new(), next: Some(next) })
    }

    /// Takes over the shard, unless the term is not trusted or another replica was faster. Returns
    /// the time of the next look.
    ///
    /// Without trust it goes on only if the store may have recorded it as the leader and the answer
    /// was lost: then no other replica replaces it without the cluster, because it is alive.
    async fn take_over(
        &mut self,
        parts: LeaderParts<'_>,
        now: Timestamp,
    ) -> Result<Timestamp, RunError> {
        let (shard, context) = (self.shard, parts.context);
        let seen = match (parts.is_held(shard, self.term), self.write_right) {
            (true, _) => self.term.replaces,
            (false, WriteRight::Pending { is_asked: true }) => {
                match recorded_epoch(context, shard, now).await? {
                    None => return Ok(now.plus(LOOK_AGAIN)),
                    seen => seen,
                }
            }
            (false, _) => return Ok(now.plus(LOOK_AGAIN)),
        };
        FaultPoint::BeforeRaise.reach();
        if matches!(self.write_right, WriteRight::Pending { .. }) {
            self.write_right = WriteRight::Pending { is_asked: true };
        }
        let epoch = match seen {
            None => Some(context.store.raise_epoch(shard, &context.replica, now).await?),
            Some(seen) => context.store.replace_leader(shard, seen, &context.replica, now).await?,
        };
        let Some(epoch) = epoch else {
            self.write_right = WriteRight::Superseded(self.term.trusted_until);
            return Ok(now.plus(LOOK_AGAIN));
        };
        FaultPoint::AfterRaise.reach();
        let fence = Fence { shard, epoch };
        self.write_right = WriteRight::Granted(fence);
        ELECTIONS.add(1);
        HIGHEST_EPOCH.raise_to(epoch.0);
        tracing::debug!(%shard, epoch = epoch.0, "leading shard");
        // The index of the previous leader remains in use while it is compared with the store page
        // by page, so ticks do not wait until a large index is rebuilt. The comparison is set first
        // because `adopt` may take effect although its response is lost.
        self.comparison = IndexComparison::without_pause(now);
        if !matches!(context.queue.adopt(shard, epoch).await, Ok(IndexAnswer::Own(()))) {
            self.rebuild(context, fence, now).await?;
        }
        Ok(now)
    }

    /// Rebuilds the index and then compares it with the store. While the ticks are read, the
    /// previous leader still owns the index and may receive the hints of changes that users make.
    async fn rebuild(
        &mut self,
        context: &SchedulerContext,
        fence: Fence,
        now: Timestamp,
    ) -> Result<(), RunError> {
        match rebuild(context, fence).await? {
            IndexAnswer::Own(()) => self.comparison = IndexComparison::without_pause(now),
            IndexAnswer::Foreign => self.step_down(fence),
        }
        Ok(())
    }

    /// Stops leading the shard.
    pub(super) fn step_down(&mut self, fence: Fence) {
        let (shard, epoch) = (fence.shard, fence.epoch.0);
        tracing::warn!(%shard, epoch, "a newer leader has the shard, stepping down");
        self.write_right = WriteRight::Superseded(self.term.trusted_until);
    }

    async fn read_due(
        &mut self,
        parts: LeaderParts<'_>,
        fence: Fence,
        now: Timestamp,
        ShardTurn { may_do_deferrable, has_fired_all, most }: ShardTurn,
    ) -> Result<DueTicks, RunError> {
        let (shard, context) = (self.shard, parts.context);
        if apply_hints(context, fence).await? {
            self.comparison.request_full(now);
        }
        if self.comparison.at <= now && (may_do_deferrable || !self.comparison.runs_without_pause) {
            self.comparison.compare_next_page(context, fence, now).await?;
        }
        if context.misses_hints() {
            self.comparison.request_again(context, now);
        }
        let after = self.brought_up_to.filter(|_| !has_fired_all);
        let due = context.queue.due(shard, fence.epoch, (after, now), most).await?;
        let IndexAnswer::Own(mut due) = due else {
            tracing::info!(%shard, "due index missing or of another leader, rebuilding it");
            self.rebuild(context, fence, now).await?;
            return Ok(DueTicks { schedules: Vec::new(), next: Some(now) });
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

/// Returns the epoch of a shard if the store has recorded this replica as its leader.
async fn recorded_epoch(
    context: &SchedulerContext,
    shard: ShardId,
    now: Timestamp,
) -> Result<Option<Epoch>, RunError> {
    let mut leaders = context.store.leadership(now).await?.leaders.into_iter();
    let own = leaders.find(|leader| leader.shard == shard && leader.replica == context.replica);
    Ok(own.map(|leader| leader.epoch))
}

/// Returns the back-off after a failure, given the number of earlier `failures`. It is random, so
/// that shards that fail together are not retried together for long; `chance` is from 0 to 1.
fn back_off(failures: u32, chance: f64) -> Duration {
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
    fn back_offs_grow_up_to_a_bound_and_differ() {
        let ms = |failures, chance| back_off(failures, chance).as_millis();
        assert_eq!([ms(0, 0.0), ms(0, 1.0)], [100, 200]);
        assert_eq!([ms(1, 1.0), ms(3, 1.0), ms(4, 1.0)], [400, 1_600, 2_000]);
        assert_eq!([ms(u32::MAX, 0.0), ms(u32::MAX, 1.0)], [1_000, 2_000]);
    }
}
