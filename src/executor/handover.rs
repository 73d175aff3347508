//! Jobs that are handed over by commands of the same replica: they need no ticket in the queue, and
//! start though it refuses them.
//!
//! Until they are claimed nobody else knows of them. If they cannot be, or the process dies, the
//! sweep finds them, as it finds what the queue has lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::BATCH;
use super::start::Start;
use super::starter::Starter;
use crate::domain::ticket::Ticket;
use crate::runtime::TaskKind;

/// Claims under way at once.
const CLAIMS: usize = 2;
/// Batches under way at once, to be claimed or queued: when the queue hangs, too, no more are taken
/// over.
const BATCHES: usize = 8;
/// How long those that come meanwhile are gathered. If no claim has ended by then, the store is
/// slow, at least to this replica: they are left to all.
const GATHER: Duration = Duration::from_millis(20);

/// Starts what is handed over, and queues what there is no room for.
pub(super) struct Handover {
    starter: Starter,
    waiting: mpsc::Receiver<Ticket>,
    claims: Arc<Semaphore>,
    batches: Arc<Semaphore>,
}

impl Handover {
    pub(super) fn new(starter: Starter, waiting: mpsc::Receiver<Ticket>) -> Self {
        let [claims, batches] = [CLAIMS, BATCHES].map(|most| Arc::new(Semaphore::new(most)));
        Self { starter, waiting, claims, batches }
    }

    /// Ends with the first stage of a stop, when all that was handed over is claimed or queued.
    pub(super) async fn run(mut self) {
        let stopping = self.starter.tasks().stopping().clone();
        let mut tickets = Vec::new();
        while let Some(place) = stopping.run_until_cancelled(self.receive(&mut tickets)).await {
            let turn = self.turn().await;
            // Those that have come meanwhile.
            let most = self.starter.shared().claims.get();
            while tickets.len() < most
                && let Ok(ticket) = self.waiting.try_recv()
            {
                tickets.push(ticket);
            }
            self.start(std::mem::take(&mut tickets), turn, place);
        }
        self.waiting.close();
        while self.waiting.recv_many(&mut tickets, BATCH).await > 0 {}
        self.starter.shared().push(&tickets).await;
    }

    /// Waits for some, and for a place among the batches; loses none if it is dropped.
    async fn receive(&mut self, tickets: &mut Vec<Ticket>) -> OwnedSemaphorePermit {
        let place = self.batches.clone().acquire_owned().await.expect("never closed");
        self.waiting.recv_many(tickets, self.starter.shared().claims.get()).await;
        place
    }

    /// The right to claim, if another claim ends soon.
    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            biased;
            turn = self.claims.clone().acquire_owned() => turn.ok(),
            () = self.starter.shared().clock.sleep(GATHER) => None,
        }
    }

    /// Starts those that there is room for, in its turn, and queues the others.
    fn start(
        &self,
        tickets: Vec<Ticket>,
        turn: Option<OwnedSemaphorePermit>,
        place: OwnedSemaphorePermit,
    ) {
        let starter = self.starter.clone();
        // Before it is looked whether this executor stops: who waits for that sees these coming.
        let coming = starter.shared().running.announce();
        self.starter.tasks().spawn(TaskKind::Claim, async move {
            let start = match &turn {
                Some(_) => find_room(&starter, &tickets).await,
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
            tokio::join!(claimed, starter.shared().push(&left));
            drop((coming, place));
        });
    }
}

/// Slots for as many as may start; none while it is not known what time it is.
async fn find_room(starter: &Starter, tickets: &[Ticket]) -> Option<Start> {
    let is_believed = starter.shared().clock.is_believed();
    let outcomes = starter.outcomes().filter(|_| is_believed)?;
    let leased = starter.shared().lease.ensure(starter.shared()).await.ok()?;
    let slots = starter.reserve(tickets, Duration::ZERO).await;
    Some(starter.start(outcomes, slots, leased))
}

async fn claim(start: Option<Start>, tickets: &[Ticket]) {
    let Some(start) = start.filter(|_| !tickets.is_empty()) else { return };
    if let Err(error) = start.claim_and_begin(tickets).await {
        tracing::warn!(%error, jobs = tickets.len(), "jobs not claimed, leaving them to the sweep");
    }
}
