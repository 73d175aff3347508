//! The dispatcher's loop: takes tickets, claims their jobs and starts their attempts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Shared;
use super::attempt::Attempt;
use super::ended::Ended;
use super::slots::Slot;
use crate::domain::job::Trigger;
use crate::domain::ticket::Ticket;
use crate::domain::{JobId, Timestamp};
use crate::runtime::faults::Point;
use crate::runtime::{Pause, RunError, TaskKind, Tasks, Worker};
use crate::store::{Claim, Claimed, Claims, Completion, End, StoreError, Unreadable};
use crate::telemetry::metrics::START_LAG_SECONDS;

/// The most jobs claimed at once.
const BATCH: usize = 500;
/// How long freed slots are gathered while there are more tickets than slots, so that claims stay
/// batches.
const GATHER: Duration = Duration::from_millis(10);
/// How long it rests when none of the tickets that it took could start: there may be more accounts
/// with such tickets than the queue is told of.
const FRUITLESS: Duration = Duration::from_millis(50);
/// How long the loop rests without a hint; bounds how late a ticket without one is noticed.
const LONGEST_REST: Duration = Duration::from_millis(500);

/// Takes tickets, claims their jobs and starts their attempts. While the store is busy with one
/// claim, the tickets of the next are taken.
pub(super) struct Dispatcher {
    shared: Arc<Shared>,
    outcomes: mpsc::Sender<Ended>,
    tasks: Tasks,
    /// The claim under way.
    claiming: Option<JoinHandle<Option<Claiming>>>,
    /// How long the next round is put off, whatever hints come.
    rest: Option<Duration>,
}

/// A claim of some tickets' jobs, and what their attempts need.
struct Start {
    shared: Arc<Shared>,
    outcomes: mpsc::Sender<Ended>,
    tasks: Tasks,
    slots: HashMap<JobId, Slot>,
}

/// How a claim ended.
type Claiming = Result<(), StoreError>;

impl Dispatcher {
    pub(super) fn new(shared: Arc<Shared>, outcomes: mpsc::Sender<Ended>, tasks: Tasks) -> Self {
        Self { shared, outcomes, tasks, claiming: None, rest: None }
    }

    /// Puts back what accounts whose plans limit them may not have under way yet. If that fails, or
    /// it is not known what they may, the sweep finds these jobs again.
    async fn within_shares(&self, tickets: Vec<Ticket>) -> Result<Vec<Ticket>, RunError> {
        let Shared { shares, slots, queue, clock, .. } = &*self.shared;
        let shares = shares.of(&tickets, clock.monotonic()).await?;
        let (tickets, beyond) = slots.within(&shares, tickets, clock.monotonic());
        if !beyond.is_empty()
            && let Err(error) = queue.put_back(&beyond).await
        {
            tracing::warn!(%error, "tickets not put back, leaving their jobs to the sweep");
        }
        Ok(tickets)
    }

    /// Starts what the tickets are for. Their slots are held from here on.
    fn start(&self, tickets: Vec<Ticket>) -> JoinHandle<Option<Claiming>> {
        let slots = tickets.iter().map(|ticket| (ticket.job, self.shared.slots.take(ticket)));
        let start = Start {
            slots: slots.collect(),
            shared: self.shared.clone(),
            outcomes: self.outcomes.clone(),
            tasks: self.tasks.clone(),
        };
        self.tasks.spawn(TaskKind::Claim, start.run(tickets))
    }

    /// Waits for the claim under way, if there is one.
    pub(super) async fn settle(&mut self) -> Claiming {
        match self.claiming.take() {
            // A claim that panicked has said so, and the sweep sees to its jobs.
            Some(claiming) => claiming.await.ok().flatten().unwrap_or(Ok(())),
            None => Ok(()),
        }
    }
}

impl Start {
    /// Claims the tickets' jobs and starts those that were claimed.
    async fn run(mut self, tickets: Vec<Ticket>) -> Claiming {
        let shared = &self.shared;
        // As late as can be: a claim must not be half over when it begins.
        let (now, asked) = (shared.clock.now(), shared.clock.monotonic());
        let until = shared.clock.after(now, shared.settings.claim_time);
        let claim = Claim { executor: shared.id, now, until };
        let jobs: Vec<JobId> = tickets.iter().map(|ticket| ticket.job).collect();
        Point::AfterTake.reach();
        let Claims { taken, unreadable } = shared.store.claim(&claim, &jobs).await?;
        Point::AfterClaim.reach();
        for claimed in taken {
            let Some(slot) = self.slots.remove(&claimed.job) else { continue };
            self.observe_lag(&claimed);
            let (place, aborted) = shared.running.enter(claimed.job, claimed.attempt);
            let attempt = Attempt { shared: shared.clone(), claimed, asked, slot, place, aborted };
            // Boxed, so that a large future is not moved from wrapper to wrapper.
            self.tasks.spawn(TaskKind::Attempt, Box::pin(attempt.run(self.outcomes.clone())));
        }
        for damaged in unreadable {
            // If the committer is gone, the sweep takes over.
            let _ = self.outcomes.send(fail(damaged, shared)).await;
        }
        Ok(())
    }

    /// Late ticks and further attempts say nothing about how prompt the service is.
    fn observe_lag(&self, claimed: &Claimed) {
        if claimed.attempt == 1 && claimed.trigger != Trigger::CatchUp {
            START_LAG_SECONDS.record_span(self.shared.clock.now().since(claimed.job.timestamp()));
        }
    }
}

/// The end of an attempt that cannot be sent. No other would be different.
fn fail(damaged: Unreadable, shared: &Shared) -> Ended {
    let Unreadable { job, attempt, failure } = damaged;
    let (place, _) = shared.running.enter(job, attempt);
    let completion = Completion {
        job,
        attempt,
        executor: shared.id,
        completed_at: shared.clock.now(),
        exchange: None,
        end: End::Failed(failure),
    };
    Ended { completion, place }
}

#[async_trait]
impl Worker for Dispatcher {
    async fn run_once(&mut self, now: Timestamp) -> Result<Pause, RunError> {
        let now = match self.rest.take() {
            Some(rest) => {
                self.shared.clock.sleep(rest).await;
                self.shared.clock.now()
            }
            None => now,
        };
        if !self.shared.clock.is_believed() {
            return Ok(Pause::For(LONGEST_REST));
        }
        // Before the room is looked at: a slot freed in between is then not missed.
        self.shared.slots.want_more();
        let mut room = self.shared.slots.room(self.shared.clock.monotonic());
        room.total = room.total.min(BATCH);
        if room.total == 0 {
            self.rest = Some(GATHER);
            return Ok(Pause::For(LONGEST_REST));
        }
        let (tickets, next) = self.shared.queue.take(now, &room).await?;
        let taken = tickets.len();
        let tickets = self.within_shares(tickets).await?;
        if tickets.is_empty() {
            self.rest = (taken > 0).then_some(FRUITLESS);
            self.settle().await?;
            let rest = now.plus(LONGEST_REST);
            return Ok(Pause::Until(next.map_or(rest, |next| next.min(rest))));
        }
        let is_crowded = tickets.len() < BATCH && tickets.len() == room.total;
        self.rest = is_crowded.then_some(GATHER);
        let next = self.start(tickets);
        let earlier = self.settle().await;
        self.claiming = Some(next);
        earlier?;
        Ok(Pause::None)
    }
}
