//! The queue: the due index and the run queue. This file is the contract; the adapters are beside
//! it.
//!
//! Place in the flow: leaders keep the next tick of each schedule of their shards in the due index
//! and push tickets of due jobs into the run queue; executors take them from there. Everything in
//! it is a hint and can be lost at any moment (QUEUE-1): it is refilled from the store, the due
//! index by its leader, the run queue by the sweep.
//!
//! What every adapter keeps, and the conformance suite checks:
//! - A due index carries the epoch that built it. Reads and writes that name another epoch get
//!   `Index::Foreign` and change nothing; the leader rebuilds.
//! - A hint is told once, to whoever asks for the shard's first. One that cannot be left now is kept
//!   while the process lives, and left as soon as the queue takes it.
//! - Pushing a ticket that is queued is a no-op. A ticket is handed to one taker only.
//! - Writes can be repeated, to the same end. What was taken with an answer that got lost is refilled
//!   from the store; a request that is counted, or taken back, again is another one.
//! - A full run queue drops tickets, but not those of an account that has few ready ones in it.
//! - `take` never hands out a ticket before its start, more than the room given, and goes round
//!   the accounts, so that one with many tickets does not keep others waiting.

pub mod fallback;
pub mod memory;
pub mod redis;

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::domain::shard::{Epoch, ShardId};
use crate::domain::ticket::{HostKey, Ticket};
use crate::domain::{AccountId, ScheduleId, Timestamp};
use crate::runtime::{CallError, measured};

/// The maximum number of tickets in a run queue: of a process, or of a shard where that has its own. A
/// full one drops tickets, and the sweep, which finds their jobs in the store, pushes them again later.
const MOST_TICKETS: usize = 250_000;
/// How many ready tickets an account may have in a full run queue. One account's backlog cannot lock
/// out the others: those that have less are taken, until there are twice [`MOST_TICKETS`].
const FULL_SHARE: usize = 1_000;

/// How many more attempts an executor may begin.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// In all.
    pub total: usize,
    /// Of one account, unless `accounts` names it.
    pub per_account: usize,
    /// Of one account that has attempts under way.
    pub accounts: HashMap<AccountId, usize>,
    /// To one host, unless `hosts` names it.
    pub per_host: usize,
    /// To one host that has attempts under way.
    pub hosts: HashMap<HostKey, usize>,
}

/// An answer of the due index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Index<T> {
    /// The index is the caller's.
    Own(T),
    /// The index is missing or another epoch's: rebuild it.
    Foreign,
}

/// A schedule as the queue has it: with its account, so that leaders can go round the accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The schedule.
    pub schedule: ScheduleId,
    /// Whose it is.
    pub account: AccountId,
}

/// What is due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// Schedules whose next tick is in the span asked for, earliest first.
    pub schedules: Vec<(Member, Timestamp)>,
    /// The next tick after those.
    pub next: Option<Timestamp>,
}

/// What of a shard has changed, for its leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// These schedules.
    pub schedules: Vec<Member>,
    /// Any of the shard's: whoever should have said which has lost count.
    pub all: bool,
}

impl Changes {
    /// Changes of these schedules.
    pub fn of(schedules: impl Into<Vec<Member>>) -> Self {
        Self { schedules: schedules.into(), all: false }
    }

    /// Changes of any schedule.
    pub fn all() -> Self {
        Self { schedules: Vec::new(), all: true }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.schedules.is_empty() && !self.all
    }
}

/// A failed operation of a queue. Always transient: nothing in a queue is needed.
#[derive(Debug)]
pub struct QueueError {
    operation: &'static str,
    source: Box<dyn Error + Send + Sync>,
}

impl QueueError {
    /// An error of `operation`, named as the contract's method is.
    pub fn new(operation: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { operation, source: source.into() }
    }
}

impl CallError for QueueError {
    fn is_fault(&self) -> bool {
        true
    }
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue unavailable ({}): {}", self.operation, self.source)
    }
}

impl Error for QueueError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}

/// What the contract's methods return.
pub type Result<T> = std::result::Result<T, QueueError>;

/// One of the windows in which requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How long it is.
    pub span: Duration,
    /// How many requests it takes.
    pub limit: u32,
}

/// Where a subject stands in a window after a request was, or was not, counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The window.
    pub window: Window,
    /// How many requests it still takes.
    pub remaining: u32,
    /// When it begins anew.
    pub resets_at: Timestamp,
}

/// Whether a request is let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Where the subject stands in each window, in the order asked.
    pub standings: Vec<Standing>,
    /// Whether every window had room. If not, nothing was counted in any.
    pub allowed: bool,
}

measured! {
    QueueOperation, QUEUE_CALL_SECONDS, QUEUE_CALL_ERRORS;
    /// The due index, the run queue, and counters that all replicas share.
    pub trait Queue: Send + Sync {
        /// Makes a shard's due index the epoch's, as it is: what it lacks, and what is wrong in it, is
        /// for the caller to mend. `Foreign`, and nothing is changed, if there is none or it is of a
        /// higher epoch.
        async fn adopt(&self, shard: ShardId, epoch: Epoch) -> Result<Index<()>>;

        /// Replaces a shard's due index by `entries` and makes it the epoch's. `Foreign`, and nothing
        /// is changed, if the index is of a higher epoch.
        async fn rebuild(
            &self,
            shard: ShardId,
            epoch: Epoch,
            entries: &[(Member, Timestamp)],
        ) -> Result<Index<()>>;

        /// Sets the next ticks of schedules in the index; `None` takes one out.
        async fn set_due(
            &self,
            shard: ShardId,
            epoch: Epoch,
            entries: &[(Member, Option<Timestamp>)],
        ) -> Result<Index<()>>;

        /// What is due after the first instant of the span, if there is one, and up to the second; at
        /// most `limit`. Taking nothing out: `set_due` does, after firing.
        async fn due(
            &self,
            shard: ShardId,
            epoch: Epoch,
            span: (Option<Timestamp>, Timestamp),
            limit: usize,
        ) -> Result<Index<Due>>;

        /// Tells a shard's leader what has changed, now or as soon as the queue takes it.
        async fn hint(&self, shard: ShardId, changes: &Changes) -> Result<()>;

        /// Takes the hints for a shard, at most `limit`, where `all` is one of them; fewer only if there
        /// are no more.
        async fn take_hints(&self, shard: ShardId, limit: usize) -> Result<Changes>;

        /// Queues tickets, as far as there is room.
        async fn push(&self, tickets: &[Ticket]) -> Result<()>;

        /// Queues tickets that were just taken and cannot start yet: nobody is notified.
        async fn put_back(&self, tickets: &[Ticket]) -> Result<()>;

        /// Takes tickets whose start is not after `now`, as far as there is room. Beside them, when
        /// the next ticket may start.
        async fn take(&self, now: Timestamp, room: &Room) -> Result<(Vec<Ticket>, Option<Timestamp>)>;

        /// Counts a request of `subject` in all windows, or in none if one is full.
        async fn count(&self, subject: &str, windows: &[Window], now: Timestamp) -> Result<Verdict>;

        /// Takes back a request of `subject` that was counted, in the windows that have not begun anew
        /// since.
        async fn give_back(&self, subject: &str, windows: &[Window], now: Timestamp) -> Result<()>;

        /// Whether the queue takes writes.
        async fn ping(&self) -> Result<()>;
    }
    beside {
        /// Notified when a due index or its hints may have changed.
        fn due_hint(&self) -> Arc<Notify>;

        /// Notified when there may be new tickets.
        fn ticket_hint(&self) -> Arc<Notify>;
    }
}

/// A queue shared by all who use it.
pub type SharedQueue = Arc<dyn Queue>;
