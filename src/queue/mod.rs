//! The queue: the due index and the run queue. This file is the contract; the adapters are beside
//! it.
//!
//! Place in the flow: leaders keep the next tick of each schedule of their shards in the due index
//! and push tickets of due jobs into the run queue; executors take them from there. Everything in
//! the queue is a hint and can be lost at any moment (QUEUE-1). It is refilled from the store: the
//! due index by its leader, the run queue by the job rescuer.
//!
//! Every adapter keeps these rules, and the conformance suite checks them:
//! - A due index carries the epoch that built it. Reads and writes that name another epoch get
//!   `IndexAnswer::Foreign` and change nothing; the leader rebuilds.
//! - A hint is handed out once, to the first replica that asks for the shard's hints. A hint that
//!   the queue does not take now is kept while the process lives, and sent as soon as the queue
//!   takes it.
//! - Pushing a ticket that is queued is a no-op. A ticket is handed to one taker only.
//! - Writes can be repeated with the same result, except that each repeated `count` or `give_back`
//!   is another request. Tickets that were taken with a lost answer are refilled from the store.
//! - A full run queue drops tickets, but not those of an account that has few in it.
//! - `take` never hands out a ticket before its start, nor more tickets than the capacity. It
//!   goes round the accounts, so that an account with many tickets does not keep others waiting.

pub mod fallback;
pub mod memory;
pub mod redis;

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::domain::shard::{Epoch, ShardId};
use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, ScheduleId, Timestamp};
use crate::runtime::{CallError, measured};

/// The maximum number of tickets in a run queue: in all of a process, or in each shard where shards
/// have run queues of their own. A full run queue drops tickets. The job rescuer finds their jobs
/// in the store and pushes the tickets again later.
const MAX_TICKETS: usize = 250_000;
/// An account with fewer tickets than this still gets tickets into a full run queue, up to twice
/// [`MAX_TICKETS`] in all. So one account's backlog cannot lock out the others.
const FULL_SHARE: usize = 1_000;

/// The number of attempts that an executor may still begin.
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    /// The capacity in all.
    pub total: usize,
    /// The capacity of each account that `accounts` does not name.
    pub per_account: usize,
    /// The capacity of each account that has attempts under way.
    pub accounts: HashMap<AccountId, usize>,
    /// The capacity of each host that `hosts` does not name.
    pub per_host: usize,
    /// The capacity of each host that has attempts under way.
    pub hosts: HashMap<HostKey, usize>,
}

impl Capacity {
    fn of_account(&self, account: AccountId) -> usize {
        self.accounts.get(&account).copied().unwrap_or(self.per_account)
    }

    fn of_host(&self, host: HostKey) -> usize {
        self.hosts.get(&host).copied().unwrap_or(self.per_host)
    }

    /// Subtracts the capacity that a ticket uses.
    fn use_up(&mut self, ticket: &Ticket) {
        self.total = self.total.saturating_sub(1);
        let account = self.of_account(ticket.account).saturating_sub(1);
        self.accounts.insert(ticket.account, account);
        let host = self.of_host(ticket.host).saturating_sub(1);
        self.hosts.insert(ticket.host, host);
    }
}

/// An answer of the due index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexAnswer<T> {
    /// The index is the caller's.
    Own(T),
    /// The index is missing or belongs to another epoch: the caller must rebuild it.
    Foreign,
}

/// A schedule with its account, so that leaders can go round the accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnedSchedule {
    /// The schedule.
    pub schedule: ScheduleId,
    /// The account that owns it.
    pub account: AccountId,
}

/// The due part of an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueTicks {
    /// Schedules whose next tick is in the span asked for, earliest first.
    pub schedules: Vec<(OwnedSchedule, Timestamp)>,
    /// The next tick after those.
    pub next: Option<Timestamp>,
}

/// Changes in a shard, for its leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardChanges {
    /// The changed schedules that are known by name.
    pub schedules: Vec<OwnedSchedule>,
    /// Set if any schedule of the shard may have changed, because not all of the changed ones are
    /// known.
    pub all: bool,
}

impl ShardChanges {
    /// Changes of these schedules.
    pub fn of(schedules: impl Into<Vec<OwnedSchedule>>) -> Self {
        Self { schedules: schedules.into(), all: false }
    }

    /// Changes of any schedule.
    pub fn all() -> Self {
        Self { schedules: Vec::new(), all: true }
    }

    /// Returns `true` if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.schedules.is_empty() && !self.all
    }
}

/// A failed operation of a queue. It is always transient, because nothing in a queue is needed.
#[derive(Debug, thiserror::Error)]
#[error("queue unavailable ({operation}): {source}")]
pub struct QueueError {
    operation: &'static str,
    source: Box<dyn Error + Send + Sync>,
}

impl QueueError {
    /// Creates an error of `operation`, which has the name of the contract's method.
    pub fn new(operation: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { operation, source: source.into() }
    }
}

impl CallError for QueueError {
    fn is_fault(&self) -> bool {
        true
    }
}

/// The result of the contract's methods.
pub type Result<T> = std::result::Result<T, QueueError>;

/// Tickets that were taken, and the time at which the next ticket may start.
pub type TakenTickets = (Vec<Ticket>, Option<Timestamp>);

/// A window in which requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateWindow {
    /// The length of the window.
    pub span: Duration,
    /// The maximum number of requests in it.
    pub limit: u32,
}

/// The state of a subject's window after a request was, or was not, counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowState {
    /// The window.
    pub window: RateWindow,
    /// The number of requests that it still takes.
    pub remaining: u32,
    /// The time at which it begins anew.
    pub resets_at: Timestamp,
}

/// The answer to a request for counting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateVerdict {
    /// The state of each window, in the order of the call.
    pub window_states: Vec<WindowState>,
    /// Set if every window had capacity. If not, nothing was counted in any of them.
    pub allowed: bool,
}

measured! {
    QueueOperation, QUEUE_CALL_SECONDS, QUEUE_CALL_ERRORS;
    /// The due index, the run queue, and counters that all replicas share.
    pub trait Queue: Send + Sync {
        /// Takes over a shard's due index for the epoch and keeps its entries. The caller has to
        /// add missing entries and correct wrong ones. Returns `Foreign`, and changes nothing, if
        /// there is no index or it belongs to a higher epoch.
        async fn adopt(&self, shard: ShardId, epoch: Epoch) -> Result<IndexAnswer<()>>;

        /// Replaces a shard's due index by `entries`, under the given epoch. Returns `Foreign`, and
        /// changes nothing, if the index belongs to a higher epoch.
        async fn rebuild(
            &self,
            shard: ShardId,
            epoch: Epoch,
            entries: &[(OwnedSchedule, Timestamp)],
        ) -> Result<IndexAnswer<()>>;

        /// Sets the next ticks of schedules in the index; `None` removes an entry.
        async fn set_due(
            &self,
            shard: ShardId,
            epoch: Epoch,
            entries: &[(OwnedSchedule, Option<Timestamp>)],
        ) -> Result<IndexAnswer<()>>;

        /// Returns at most `limit` schedules that are due after the first instant of the span, if
        /// there is one, and up to the second. It removes nothing: `set_due` does that after
        /// firing.
        async fn due(
            &self,
            shard: ShardId,
            epoch: Epoch,
            span: (Option<Timestamp>, Timestamp),
            limit: usize,
        ) -> Result<IndexAnswer<DueTicks>>;

        /// Sends changes to a shard's leader, now or as soon as the queue takes them.
        async fn hint(&self, shard: ShardId, changes: &ShardChanges) -> Result<()>;

        /// Takes at most `limit` hints of a shard, where `all` counts as one of them. Returns fewer
        /// only if there are no more.
        async fn take_hints(&self, shard: ShardId, limit: usize) -> Result<ShardChanges>;

        /// Queues as many of the tickets as there is capacity for.
        async fn push(&self, tickets: &[Ticket]) -> Result<()>;

        /// Queues tickets that were just taken and cannot start yet. No executor is notified.
        async fn put_back(&self, tickets: &[Ticket]) -> Result<()>;

        /// Takes as many of the tickets that may start by `now` as there is capacity for.
        async fn take(&self, now: Timestamp, capacity: &Capacity) -> Result<TakenTickets>;

        /// Counts a request of `subject` in all windows, or in none if one is full.
        async fn count(&self, subject: &str, windows: &[RateWindow], now: Timestamp) -> Result<RateVerdict>;

        /// Takes back a counted request of `subject`, in those windows that have not begun anew
        /// since.
        async fn give_back(&self, subject: &str, windows: &[RateWindow], now: Timestamp) -> Result<()>;

        /// Checks that the queue takes writes.
        async fn ping(&self) -> Result<()>;
    }
    beside {
        /// Notified when a due index or its hints may have changed.
        fn due_hint(&self) -> Arc<Notify>;

        /// Notified when there may be new tickets.
        fn ticket_hint(&self) -> Arc<Notify>;

        /// Returns `true` while the process works without the server that replicas share.
        fn is_away(&self) -> bool;
    }
}

/// A queue shared by its users.
pub type SharedQueue = Arc<dyn Queue>;
