//! Commands and queries on schedules and their jobs, shared by the API and the dashboard.
//!
//! Place in the flow: the API or the dashboard turns the user's input into a request of `requests`.
//! `edits` and `rules` check it, and a command computes the new state with `domain` and writes it
//! to the store. Then the command sends a hint about the change to the queue.
//!
//! Invariants:
//! - Input that violates the contract's rules never reaches the store.
//! - A change is computed from one state of the schedule and takes effect only on that state. If
//!   another writer or a tick comes first, the change is computed again.
//! - A command runs to its end, even if the client has disconnected.
//! - A command beyond the limits of the account's plan is refused, either before the transaction
//!   that would carry it out or by that transaction. Nothing changes in a suspended account.
//! - TICK-2: due ticks that a change drops are recorded as superseded.
//!
//! On failure: a store error is returned to the caller. Nothing has changed unless the error is
//! transient. The queue carries only hints, so its errors are logged; the leader's background
//! comparison and the job rescuer recover lost hints.

mod commands;
mod create;
mod draft;
mod edits;
mod error;
mod forecast;
mod import;
mod job_watches;
mod limits;
mod preview;
mod queries;
mod requests;
mod rules;
mod test_request;
mod update;

use std::future::Future;
use std::sync::Arc;

pub use crate::domain::field_errors::FieldErrors;
pub use create::{MAX_BATCH, ScheduleBatch};
pub use error::CommandError;
pub use forecast::{Forecast, Forecasts};
pub use import::{
    ImportEntry, ImportPreview, ImportText, ImportedSchedule, MAX_IMPORT, ScheduleImport,
    ScheduleImports,
};
pub use job_watches::{JobWatch, JobWatches, WatchedJob};
pub use preview::Preview;
pub use requests::{PreviewRequest, ScheduleCreation, ScheduleSwitch, ScheduleUpdate};
pub use test_request::{CheckedTest, MAX_TEST, TestResult, TestedSchedule};

use crate::domain::call::Call;
use crate::domain::plan::Plans;
use crate::domain::shard::ShardId;
use crate::domain::ticket::Ticket;
use crate::domain::{AccountId, AuditId, ScheduleId, Timestamp};
use crate::local_executor::LocalHandover;
use crate::outbound;
use crate::queue::{OwnedSchedule, ShardChanges, SharedQueue};
use crate::runtime::{Clock, Random, TaskKind, Tasks};
use crate::store::{SharedStore, WriteContext};

/// The service for commands and queries on schedules and their jobs. Clones share all parts.
#[derive(Clone)]
pub struct Schedules(Arc<ScheduleParts>);

/// The dependencies of the commands.
pub struct ScheduleParts {
    /// The store, the source of truth.
    pub store: SharedStore,
    /// The queue for hints to leaders and for tickets of jobs.
    pub queue: SharedQueue,
    /// The client that checks endpoints; it sends nothing here.
    pub outbound: outbound::Client,
    /// The clock.
    pub clock: Clock,
    /// The source of randomness for ids.
    pub random: Random,
    /// The task tracker in which commands run to their end.
    pub tasks: Tasks,
    /// The number of shards of the store.
    pub shards: u16,
    /// The plans of accounts.
    pub plans: Arc<Plans>,
    /// The executor that runs jobs without the queue, if this replica has one.
    pub handover: Option<Arc<dyn LocalHandover>>,
}

impl Schedules {
    /// Creates the service from its parts.
    pub fn new(parts: ScheduleParts) -> Self {
        Self(Arc::new(parts))
    }

    /// Runs a command to its end, even if the caller stops waiting for it.
    async fn run<T: Send + 'static>(
        &self,
        command: impl Future<Output = Result<T, CommandError>> + Send + 'static,
    ) -> Result<T, CommandError> {
        match self.0.tasks.spawn(TaskKind::Command, command).await {
            Ok(Some(result)) => result,
            _ if self.0.tasks.aborting().is_cancelled() => Err(CommandError::Stopping),
            _ => Err(CommandError::Panicked),
        }
    }
}

impl ScheduleParts {
    fn write(&self, account: AccountId, call: Call, now: Timestamp) -> WriteContext {
        let (Call { author, idempotency }, entry) = (call, AuditId::new(now, self.random.bits()));
        WriteContext { account, now, author, entry, idempotency }
    }

    fn shard(&self, schedule: ScheduleId) -> ShardId {
        ShardId::of(schedule, self.shards)
    }

    /// Sends a hint about the changed schedules to the leaders of their shards.
    async fn hint(&self, account: AccountId, schedules: &[ScheduleId]) {
        let mut schedules: Vec<_> = schedules.iter().map(|id| (self.shard(*id), *id)).collect();
        schedules.sort_unstable();
        for of_shard in schedules.chunk_by(|a, b| a.0 == b.0) {
            let member = |(_, id): &(_, ScheduleId)| OwnedSchedule { schedule: *id, account };
            let members: Vec<_> = of_shard.iter().map(member).collect();
            if let Err(error) = self.queue.hint(of_shard[0].0, &ShardChanges::of(members)).await {
                tracing::warn!(%error, "could not send a hint about changed schedules");
            }
        }
    }

    /// Starts jobs that may run now: on this replica's executor if it has capacity, else through
    /// the queue.
    async fn start(&self, tickets: &[Ticket]) {
        let left = self.handover.as_ref().map(|handover| handover.accept(tickets));
        let tickets = left.as_deref().unwrap_or(tickets);
        if tickets.is_empty() {
            return;
        }
        if let Err(error) = self.queue.push(tickets).await {
            tracing::warn!(%error, "could not queue jobs, the job rescuer will find them");
        }
    }
}
