//! Jobs that commands of the same replica hand over. They need no ticket in the queue, and they
//! start even while the queue refuses tickets.
//!
//! Until such a job is claimed, no other executor has a ticket for it. If it cannot be claimed, or
//! the process dies, the job rescuer finds it, as it finds jobs whose tickets the queue has lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::attempt_starter::AttemptStarter;
use super::direct_starter::DirectStarter;
use crate::domain::ticket::Ticket;
use crate::executor::settings::BATCH;
use crate::runtime::TaskKind;

/// The maximum number of claims under way.
const CLAIMS: usize = 2;
/// The maximum number of batches being claimed or queued. At this number no more jobs are taken
/// over, for example because the queue hangs as well.
const BATCHES: usize = 8;
/// The time for which tickets that come meanwhile are gathered. If no claim has ended by then, the
/// store is slow, at least for this replica: the tickets go to the queue, where any executor can
/// take them.
const GATHER: Duration = Duration::from_millis(20);

/// Starts the jobs that are handed over, and queues the tickets that there is no capacity for.
pub(in crate::executor) struct Handover {
    starter: DirectStarter,
    waiting: mpsc::Receiver<Ticket>,
    claims: Arc<Semaphore>,
    batches: Arc<Semaphore>,
}

impl Handover {
    pub(in crate::executor) fn new(
        starter: DirectStarter,
        waiting: mpsc::Receiver<Ticket>,
    ) -> Self {
        let [claims, batches] = [CLAIMS, BATCHES].map(|most| Arc::new(Semaphore::new(most)));
        Self { starter, waiting, claims, batches }
    }

    /// Takes jobs until the first stage of a stop, then queues the tickets that are left.
    pub(in crate::executor) async fn run(mut self) {
        let stopping = self.starter.tasks.stopping().clone();
        let mut tickets = Vec::new();
        while let Some(permit) = stopping.run_until_cancelled(self.receive(&mut tickets)).await {
            let turn = self.turn().await;
            // Adds the tickets that have come meanwhile.
            let most = self.starter.shared.claims.get();
            while tickets.len() < most
                && let Ok(ticket) = self.waiting.try_recv()
            {
                tickets.push(ticket);
            }
            self.start(std::mem::take(&mut tickets), turn, permit);
        }
        self.waiting.close();
        while self.waiting.recv_many(&mut tickets, BATCH).await > 0 {}
        self.starter.shared.push(&tickets).await;
    }

    /// Waits until a batch may begin and then for tickets. Dropping the future loses no
    /// ticket.
    async fn receive(&mut self, tickets: &mut Vec<Ticket>) -> OwnedSemaphorePermit {
        let permit = self.batches.clone().acquire_owned().await.expect("never closed");
        self.waiting.recv_many(tickets, self.starter.shared.claims.get()).await;
        permit
    }

    /// Returns the right to claim; `None` if no other claim ends soon enough.
    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            biased;
            turn = self.claims.clone().acquire_owned() => turn.ok(),
            () = self.starter.shared.clock.sleep(GATHER) => None,
        }
    }

    /// Claims the jobs that there is capacity for, within the turn, and queues the tickets of the
    /// others.
    fn start(
        &self,
        tickets: Vec<Ticket>,
        turn: Option<OwnedSemaphorePermit>,
        permit: OwnedSemaphorePermit,
    ) {
        let starter = self.starter.clone();
        // Announced before the check for a stop: the stop then waits for these attempts.
        let coming = starter.shared.registry.announce();
        self.starter.tasks.spawn(TaskKind::Claim, async move {
            let start = match &turn {
                Some(_) => find_capacity(&starter, &tickets).await,
                None => None,
            };
            let has_slot = |ticket: &Ticket| {
                start.as_ref().is_some_and(|start| start.slots.contains_key(&ticket.job))
            };
            let (within, left): (Vec<_>, Vec<_>) = tickets.into_iter().partition(has_slot);
            let claimed = async {
                claim(start, &within).await;
                drop(turn);
            };
            tokio::join!(claimed, starter.shared.push(&left));
            drop((coming, permit));
        });
    }
}

/// Takes slots for the tickets that may start; `None` while the clock is not trusted, after a stop
/// has begun, or without a lease.
async fn find_capacity(starter: &DirectStarter, tickets: &[Ticket]) -> Option<AttemptStarter> {
    let outcomes = starter.outcomes()?;
    let leased = starter.shared.lease.ensure().await.ok()?;
    let slots = starter.reserve(tickets, Duration::ZERO).await;
    Some(starter.start(outcomes, slots, leased))
}

async fn claim(start: Option<AttemptStarter>, tickets: &[Ticket]) {
    let Some(start) = start.filter(|_| !tickets.is_empty()) else { return };
    if let Err(error) = start.claim_and_begin(tickets).await {
        tracing::warn!(%error, jobs = tickets.len(), "jobs not claimed, leaving them to the job rescuer");
    }
}
