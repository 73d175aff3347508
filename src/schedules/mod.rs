//! Commands and queries on schedules and their jobs, for the API and the dashboard alike.
//!
//! Place in the flow: a front door hands over what a user wrote. `json` reads it, `fields` and
//! `rules` check it, a command works out the new state with `domain` and writes the
//! store; then it tells the queue what has changed.
//!
//! Invariants:
//! - Nothing reaches the store that the contract's rules do not allow.
//! - A change is worked out from one state of the schedule and takes effect only on that state;
//!   when somebody else, or a tick, comes first, it is worked out again.
//! - What a command has begun is finished, even if nobody waits for its result any more.
//! - What an account's plan does not allow is refused, by the transaction that would do it or
//!   before. Of a suspended account nothing changes.
//! - TICK-2: due ticks that a change drops are recorded as superseded.
//!
//! On failure: a store error is handed on, and nothing has changed unless the error is transient.
//! The queue holds hints only: its errors are logged, and the leader's background comparison and
//! the sweep find what was not told.

mod commands;
mod create;
mod draft;
mod edits;
mod error;
mod fields;
mod json;
mod limits;
mod preview;
mod queries;
mod rules;
mod update;

use std::future::Future;
use std::sync::Arc;

pub use crate::domain::field_errors::FieldErrors;
pub use create::{Batch, LARGEST_BATCH};
pub use edits::SCHEDULE_FIELDS;
pub use error::CommandError;
pub use fields::NOT_AN_INSTANT;
pub use json::{JsonError, Object};
pub use preview::{PREVIEW_FIELDS, Preview};
pub use update::TOGGLE_FIELDS;

use crate::domain::call::Call;
use crate::domain::plan::Plans;
use crate::domain::shard::ShardId;
use crate::domain::ticket::Ticket;
use crate::domain::{AccountId, AuditId, ScheduleId, Timestamp};
use crate::outbound;
use crate::queue::{Changes, Member, SharedQueue};
use crate::runtime::{Clock, Random, TaskKind, Tasks};
use crate::store::{SharedStore, Write};

/// Commands and queries on schedules and their jobs. Clones share everything.
#[derive(Clone)]
pub struct Schedules(Arc<Parts>);

/// An executor of the same replica.
pub trait Runner: Send + Sync {
    /// Takes over jobs that wait and may start now. Gives back those that it cannot take, for the
    /// queue.
    fn take_over(&self, tickets: &[Ticket]) -> Vec<Ticket>;
}

/// What the commands work with.
pub struct Parts {
    /// The truth.
    pub store: SharedStore,
    /// Where leaders are told of changes and jobs are queued.
    pub queue: SharedQueue,
    /// Judges endpoints; nothing is sent.
    pub outbound: outbound::Client,
    /// Tells the time.
    pub clock: Clock,
    /// For ids.
    pub random: Random,
    /// Where commands run to their end.
    pub tasks: Tasks,
    /// How many shards the store has.
    pub shards: u16,
    /// What accounts are allowed.
    pub plans: Arc<Plans>,
    /// Runs jobs without the queue, if there is one.
    pub runner: Option<Arc<dyn Runner>>,
}

impl Schedules {
    /// Over these parts.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// Runs a command to its end, whether or not somebody still waits for it.
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

impl Parts {
    fn write(&self, account: AccountId, call: Call, now: Timestamp) -> Write {
        let (Call { author, once }, entry) = (call, AuditId::new(now, self.random.bits()));
        Write { account, now, author, entry, once }
    }

    fn shard(&self, schedule: ScheduleId) -> ShardId {
        ShardId::of(schedule, self.shards)
    }

    /// Tells the leaders of the schedules' shards that they have changed.
    async fn hint(&self, account: AccountId, schedules: &[ScheduleId]) {
        let mut schedules: Vec<_> = schedules.iter().map(|id| (self.shard(*id), *id)).collect();
        schedules.sort_unstable();
        for of_shard in schedules.chunk_by(|a, b| a.0 == b.0) {
            let member = |(_, id): &(_, ScheduleId)| Member { schedule: *id, account };
            let members: Vec<_> = of_shard.iter().map(member).collect();
            if let Err(error) = self.queue.hint(of_shard[0].0, &Changes::of(members)).await {
                tracing::warn!(%error, "a leader was not told of changed schedules");
            }
        }
    }

    /// Has run what may start now: by an executor beside, or by any.
    async fn start(&self, tickets: &[Ticket]) {
        let left = self.runner.as_ref().map(|runner| runner.take_over(tickets));
        let tickets = left.as_deref().unwrap_or(tickets);
        if tickets.is_empty() {
            return;
        }
        if let Err(error) = self.queue.push(tickets).await {
            tracing::warn!(%error, "jobs were not queued, the sweep will find them");
        }
    }
}
