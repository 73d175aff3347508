//! Starts jobs as soon as they are made, past the queue.
//!
//! When the executor beside a leader has capacity, the statement that makes the leader's jobs also
//! claims them: they need no ticket and no claim of their own. A job that a user asks for beside an
//! executor with capacity needs no ticket either (`handover`). Such jobs overtake no tickets: while
//! tickets wait for capacity in this executor, nothing starts here, and while tickets wait for an
//! account or a host, nothing of that account or host does.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::attempt_starter::AttemptStarter;
use crate::domain::JobId;
use crate::domain::ticket::Ticket;
use crate::executor::attempt::finished_attempts::FinishedAttempt;
use crate::executor::attempt_registry::AnnouncedAttempts;
use crate::executor::capacity::slot_queue::{QueueBusy, QueueTurn, SlotQueue};
use crate::executor::capacity::slots::Slot;
use crate::executor::shared::ExecutorShared;
use crate::local_executor::{LocalFiring, LocalHandover, LocalStarter};
use crate::runtime::faults::FaultPoint;
use crate::runtime::{ClockMoment, TaskKind, Tasks};
use crate::store::{Fence, Fired, Firing, Result, StoreError, StoreErrorKind};

/// The longest wait for the turn while the dispatcher takes slots. The queue's server, which the
/// dispatcher asks meanwhile, may hang.
const MAX_TURN: Duration = Duration::from_millis(50);

/// Starts jobs on behalf of leaders and commands of the same replica.
#[derive(Clone)]
pub struct DirectStarter {
    pub(super) shared: Arc<ExecutorShared>,
    /// Weak, so that the committer ends when no attempt can hand in an outcome any more.
    outcomes: mpsc::WeakSender<FinishedAttempt>,
    pub(super) tasks: Tasks,
    line: Arc<SlotQueue>,
    handed: mpsc::Sender<Ticket>,
}

impl DirectStarter {
    pub(in crate::executor) fn new(
        shared: Arc<ExecutorShared>,
        outcomes: mpsc::WeakSender<FinishedAttempt>,
        tasks: Tasks,
        handed: mpsc::Sender<Ticket>,
    ) -> Self {
        Self { shared, outcomes, tasks, line: Arc::default(), handed }
    }

    /// Returns the channel in which attempts hand in their outcomes; `None` after a stop has begun.
    pub(in crate::executor) fn outcomes(&self) -> Option<mpsc::Sender<FinishedAttempt>> {
        self.outcomes.upgrade().filter(|_| !self.tasks.stopping().is_cancelled())
    }

    /// Bundles the parts that are needed to start the jobs that have slots.
    pub(in crate::executor) fn start(
        &self,
        outcomes: mpsc::Sender<FinishedAttempt>,
        slots: HashMap<JobId, Slot>,
        leased: ClockMoment,
    ) -> AttemptStarter {
        AttemptStarter {
            shared: self.shared.clone(),
            outcomes,
            tasks: self.tasks.clone(),
            slots,
            leased,
        }
    }

    /// Takes slots for those of the tickets that may start past the queue; for none after a stop
    /// has begun.
    pub(in crate::executor) async fn reserve(
        &self,
        tickets: &[Ticket],
        timeout: Duration,
    ) -> HashMap<JobId, Slot> {
        let ExecutorShared { account_concurrency, slots, clock, .. } = &*self.shared;
        // Jobs of accounts with a share are left to the dispatcher, which counts their attempts.
        let Ok(limits) = account_concurrency.of(tickets, clock.monotonic()).await else {
            return HashMap::new();
        };
        let may_start = |ticket: &&Ticket| !limits.contains_key(&ticket.account);
        let tickets: Vec<Ticket> = tickets.iter().filter(may_start).copied().collect();
        let Ok(_queue_turn) = self.wait(tickets.len(), timeout).await else {
            return HashMap::new();
        };
        if self.tasks.stopping().is_cancelled() {
            return HashMap::new();
        }
        let turn = tokio::select! {
            turn = slots.turn() => turn,
            () = clock.sleep(MAX_TURN) => return HashMap::new(),
        };
        slots.reserve(&tickets, clock.monotonic(), &turn)
    }

    /// Waits for slots, unless other executors could run the jobs. While the returned turn is
    /// held, no other leader gets slots.
    async fn wait(
        &self,
        wanted: usize,
        timeout: Duration,
    ) -> std::result::Result<Option<QueueTurn<'_>>, QueueBusy> {
        let ExecutorShared { slots, clock, account_concurrency, .. } = &*self.shared;
        let may_wait = !timeout.is_zero() && self.line.is_worth(clock, wanted);
        if !may_wait || !account_concurrency.is_alone().await {
            return if self.line.is_empty() { Ok(None) } else { Err(QueueBusy) };
        }
        tokio::select! {
            turn = self.line.wait(slots, clock, wanted, timeout) => turn.map(Some),
            () = self.tasks.stopping().cancelled() => Err(QueueBusy),
        }
    }
}

#[async_trait]
impl LocalStarter for DirectStarter {
    async fn fire(
        &self,
        fences: &[Fence],
        wanted: Vec<(Firing, Ticket)>,
        timeout: Duration,
    ) -> std::result::Result<LocalFiring, Vec<(Firing, Ticket)>> {
        // Announced before the check for a stop: the stop then waits for these attempts.
        let coming = self.shared.registry.announce();
        let Some(outcomes) = self.outcomes() else { return Err(wanted) };
        let Ok(leased) = self.shared.lease.ensure().await else { return Err(wanted) };
        let tickets: Vec<Ticket> = wanted.iter().map(|(_, ticket)| *ticket).collect();
        let slots = self.reserve(&tickets, timeout).await;
        if slots.is_empty() {
            return Err(wanted);
        }
        let (fired, left): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|(_, ticket)| slots.contains_key(&ticket.job));
        let fired: Vec<Firing> = fired.into_iter().map(|(firing, _)| firing).collect();
        let start = self.start(outcomes, slots, leased);
        // Fires in a task of its own: a leader that is stopped must not take claimed jobs with it.
        let work = run(start, fences.to_vec(), fired.clone(), coming);
        let done = self.tasks.spawn(TaskKind::Claim, work).await.ok().flatten();
        let (outcome, started, took) = done.unwrap_or_else(|| {
            // The task may have fired the batch or not, so this counts as a lost answer.
            let why = "the task that fires the batch ended without a result";
            let lost = StoreError::new("fire_and_claim", StoreErrorKind::Unavailable, why);
            (Err(lost), Vec::new(), Duration::ZERO)
        });
        Ok(LocalFiring { fired, started, outcome, left, took })
    }
}

impl LocalHandover for DirectStarter {
    fn accept(&self, tickets: &[Ticket]) -> Vec<Ticket> {
        let is_left = |ticket: &&Ticket| self.handed.try_send(**ticket).is_err();
        tickets.iter().filter(is_left).copied().collect()
    }
}

/// Fires a batch, claims its jobs and starts them. Returns the store's answer to the firings, the
/// started jobs and the duration of the statement. After a lost answer, another task asks for the
/// claims, and the leader goes on.
async fn run(
    mut start: AttemptStarter,
    fences: Vec<Fence>,
    firings: Vec<Firing>,
    _coming: AnnouncedAttempts,
) -> (Result<Fired>, Vec<JobId>, Duration) {
    let (claim, began) = (start.claim(), start.shared.clock.monotonic());
    let fired = start.shared.store.fire_and_claim(&fences, &claim, &firings).await;
    let took = start.shared.clock.monotonic().saturating_sub(began);
    match fired {
        Ok((fired, claims)) => {
            FaultPoint::AfterStart.reach();
            let unreadable = claims.unreadable.iter().map(|damaged| damaged.job);
            let started =
                claims.taken.iter().map(|claimed| claimed.job).chain(unreadable).collect();
            start.begin(claims).await;
            (Ok(fired), started, took)
        }
        Err(error) => {
            start.recall(claim, &error);
            (Err(error), Vec::new(), took)
        }
    }
}
