//! The state that the executor's tasks share.

use std::sync::Arc;

use tokio::sync::Notify;

use super::attempt_registry::AttemptRegistry;
use super::capacity::account_concurrency::AccountConcurrency;
use super::capacity::slots::Slots;
use super::lease::Lease;
use super::settings::ExecutorSettings;
use crate::domain::ticket::Ticket;
use crate::outbound::Client;
use crate::queue::SharedQueue;
use crate::runtime::{BatchSize, Clock, ClockMoment, Random};
use crate::store::{ExecutorId, SharedStore};

/// The state that the executor's tasks share.
pub(super) struct ExecutorShared {
    pub(super) id: ExecutorId,
    pub(super) settings: ExecutorSettings,
    pub(super) store: SharedStore,
    pub(super) queue: SharedQueue,
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) slots: Arc<Slots>,
    pub(super) account_concurrency: AccountConcurrency,
    pub(super) registry: Arc<AttemptRegistry>,
    pub(super) lease: Lease,
    /// The number of jobs in one claim.
    pub(super) claims: BatchSize,
    /// The number of outcomes in one commit.
    pub(super) commits: BatchSize,
    pub(super) alerts: Arc<Notify>,
}

impl ExecutorShared {
    /// Returns `true` if an attempt that was claimed at `claimed` may still be sent. Later, the
    /// lease may end before it is renewed, and another executor could send the same attempt.
    pub(super) fn is_sendable(&self, claimed: ClockMoment) -> bool {
        self.clock.since(claimed) <= self.settings.claim_time / 2
    }

    /// Queues tickets. If that fails, the job rescuer finds their jobs.
    pub(super) async fn push(&self, tickets: &[Ticket]) {
        if !tickets.is_empty()
            && let Err(error) = self.queue.push(tickets).await
        {
            tracing::warn!(%error, "tickets not queued, leaving them to the job rescuer");
        }
    }
}
