//! The loop of the dispatcher: it takes tickets, claims their jobs and starts their attempts.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::attempt_starter::AttemptStarter;
use crate::domain::Timestamp;
use crate::domain::ticket::Ticket;
use crate::executor::attempt::finished_attempts::FinishedAttempt;
use crate::executor::lease::LeaseError;
use crate::executor::shared::ExecutorShared;
use crate::runtime::{ClockMoment, LoopPause, RunError, TaskKind, Tasks, Worker};
use crate::store::StoreError;

/// The time for which freed slots are gathered while there are more tickets than slots, so that
/// claims stay batches.
const GATHER: Duration = Duration::from_millis(5);
/// The pause of the loop when none of the tickets that it took could start. The next take could be
/// fruitless, too, because the queue is told of a limited number of accounts that exceed their
/// shares.
const EMPTY_TAKE_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause without a hint. It bounds how late a ticket without a hint is noticed.
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// Takes tickets, claims their jobs and starts their attempts. While the store handles one claim,
/// the dispatcher takes the tickets of the next one.
pub(in crate::executor) struct Dispatcher {
    shared: Arc<ExecutorShared>,
    outcomes: mpsc::Sender<FinishedAttempt>,
    tasks: Tasks,
    /// The claim under way.
    claiming: Option<JoinHandle<Option<ClaimResult>>>,
    /// The time for which the next pass is put off, even if hints come.
    pause: Option<Duration>,
}

/// The result of a claim.
type ClaimResult = Result<(), StoreError>;

impl Dispatcher {
    pub(in crate::executor) fn new(
        shared: Arc<ExecutorShared>,
        outcomes: mpsc::Sender<FinishedAttempt>,
        tasks: Tasks,
    ) -> Self {
        Self { shared, outcomes, tasks, claiming: None, pause: None }
    }

    /// Puts back the tickets that exceed their accounts' shares, and returns the others. If that
    /// fails, or the shares cannot be read, the job rescuer finds the jobs again.
    async fn within_shares(&self, tickets: Vec<Ticket>) -> Result<Vec<Ticket>, RunError> {
        let ExecutorShared { account_concurrency, slots, queue, clock, .. } = &*self.shared;
        let limits = account_concurrency.of(&tickets, clock.monotonic()).await?;
        let (within, beyond) = slots.within(&limits, tickets, clock.monotonic());
        if !beyond.is_empty()
            && let Err(error) = queue.put_back(&beyond).await
        {
            tracing::warn!(%error, "tickets not put back, leaving their jobs to the job rescuer");
        }
        Ok(within)
    }

    /// Starts a task that claims the tickets' jobs and starts their attempts. Their slots are held
    /// from here on.
    fn start(&self, tickets: Vec<Ticket>, leased: ClockMoment) -> JoinHandle<Option<ClaimResult>> {
        let now = self.shared.clock.monotonic();
        let slots = tickets.iter().map(|ticket| (ticket.job, self.shared.slots.take(ticket, now)));
        let start = AttemptStarter {
            slots: slots.collect(),
            shared: self.shared.clone(),
            outcomes: self.outcomes.clone(),
            tasks: self.tasks.clone(),
            leased,
        };
        self.tasks.spawn(TaskKind::Claim, async move { start.claim_and_begin(&tickets).await })
    }

    /// Waits for the claim under way, if there is one.
    pub(in crate::executor) async fn await_claim(&mut self) -> ClaimResult {
        match self.claiming.take() {
            // A claim that panicked has been logged, and the job rescuer finds its jobs.
            Some(claiming) => claiming.await.ok().flatten().unwrap_or(Ok(())),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Worker for Dispatcher {
    async fn run_once(&mut self, now: Timestamp) -> Result<LoopPause, RunError> {
        let now = match self.pause.take() {
            Some(pause) => {
                self.shared.clock.sleep(pause).await;
                self.shared.clock.now()
            }
            None => now,
        };
        let shared = self.shared.clone();
        let leased = match shared.lease.ensure().await {
            Err(LeaseError::UnknownTime) => return Ok(LoopPause::For(MAX_PAUSE)),
            leased => leased?,
        };
        let turn = shared.slots.turn().await;
        // Asked before the capacity is read, so that a slot freed in between is not missed.
        self.shared.slots.want_more();
        let mut capacity = self.shared.slots.capacity(self.shared.clock.monotonic());
        let most = self.shared.claims.get();
        capacity.total = capacity.total.min(most);
        if capacity.total == 0 {
            self.pause = Some(GATHER);
            self.shared.slots.set_queued(true);
            return Ok(LoopPause::For(MAX_PAUSE));
        }
        let taken = self.shared.queue.take(now, &capacity).await;
        if taken.is_err() {
            // The queue hands out none of its tickets while it fails, so jobs need not wait for
            // them.
            self.shared.slots.set_queued(false);
        }
        let (tickets, next) = taken?;
        let taken = tickets.len();
        let is_more_due = next.is_some_and(|next| next <= now);
        self.shared.slots.set_queued(taken == capacity.total || is_more_due);
        let tickets = self.within_shares(tickets).await?;
        if tickets.is_empty() {
            drop(turn);
            self.pause = (taken > 0).then_some(EMPTY_TAKE_PAUSE);
            self.await_claim().await?;
            let latest = shared.clock.after(now, MAX_PAUSE);
            return Ok(LoopPause::Until(next.map_or(latest, |next| next.min(latest))));
        }
        let is_crowded = tickets.len() < most && tickets.len() == capacity.total;
        self.pause = is_crowded.then_some(GATHER);
        let next = self.start(tickets, leased);
        drop(turn);
        let earlier = self.await_claim().await;
        self.claiming = Some(next);
        earlier?;
        Ok(LoopPause::None)
    }
}
