//! The queue behind the gate, and a record of its waiting tickets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use punctual::domain::shard::{Epoch, ShardId};
use punctual::domain::ticket::Ticket;
use punctual::domain::{JobId, Timestamp};
use punctual::queue::memory::MemoryQueue;
use punctual::queue::{
    Capacity, Changes, Due, Index, OwnedSchedule, Queue, QueueError, RateVerdict, Result, Window,
};
use tokio::sync::Notify;

use crate::gate::Gate;

/// A queue whose operations may meet faults.
pub struct GatedQueue {
    inner: MemoryQueue,
    gate: Arc<Gate>,
    watch: Mutex<Watch>,
}

#[derive(Default)]
struct Watch {
    /// All tickets that were ever pushed.
    known: Vec<Ticket>,
    /// The tickets that were pushed and not taken, with their start times.
    waiting: HashMap<JobId, Timestamp>,
    /// `true` if the last take returned nothing, so all tickets taken before have been handled.
    taker_rests: bool,
}

impl GatedQueue {
    pub fn new(gate: Arc<Gate>) -> Self {
        Self { inner: MemoryQueue::new(), gate, watch: Mutex::default() }
    }

    /// Removes all content.
    pub fn wipe(&self) {
        self.inner.wipe();
        self.watch().waiting.clear();
    }

    /// Pushes old tickets again: of waiting, running or long finished jobs.
    pub async fn repeat(&self, pick: impl Fn(usize) -> Vec<usize>) {
        let known = self.watch().known.clone();
        let again: Vec<_> = pick(known.len()).into_iter().map(|place| known[place]).collect();
        self.inner.push(&again).await.expect("memory does not fail");
    }

    /// Returns `true` if no ticket that may start by `now` waits, and all taken tickets have been
    /// handled.
    pub fn is_idle(&self, now: Timestamp) -> bool {
        let watch = self.watch();
        watch.taker_rests && watch.waiting.values().all(|start| *start > now)
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes an operation through the gate.
macro_rules! gated {
    ($self:ident.$name:ident($($argument:expr),*)) => {{
        let failed = |fault| QueueError::new(stringify!($name), fault);
        $self.gate.pass(stringify!($name), $self.inner.$name($($argument),*), failed).await
    }};
}

#[async_trait]
impl Queue for GatedQueue {
    async fn adopt(&self, shard: ShardId, epoch: Epoch) -> Result<Index<()>> {
        gated!(self.adopt(shard, epoch))
    }

    async fn rebuild(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Timestamp)],
    ) -> Result<Index<()>> {
        gated!(self.rebuild(shard, epoch, entries))
    }

    async fn set_due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Option<Timestamp>)],
    ) -> Result<Index<()>> {
        gated!(self.set_due(shard, epoch, entries))
    }

    async fn due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        (after, now): (Option<Timestamp>, Timestamp),
        limit: usize,
    ) -> Result<Index<Due>> {
        gated!(self.due(shard, epoch, (after, now), limit))
    }

    async fn hint(&self, shard: ShardId, changes: &Changes) -> Result<()> {
        gated!(self.hint(shard, changes))
    }

    async fn take_hints(&self, shard: ShardId, limit: usize) -> Result<Changes> {
        gated!(self.take_hints(shard, limit))
    }

    async fn push(&self, tickets: &[Ticket]) -> Result<()> {
        let push = async {
            let starts = tickets.iter().map(|ticket| (ticket.job, ticket.start));
            {
                let mut watch = self.watch();
                watch.waiting.extend(starts);
                watch.known.extend(tickets);
            }
            self.inner.push(tickets).await
        };
        self.gate.pass("push", push, |fault| QueueError::new("push", fault)).await
    }

    async fn put_back(&self, tickets: &[Ticket]) -> Result<()> {
        self.push(tickets).await
    }

    async fn take(
        &self,
        now: Timestamp,
        room: &Capacity,
    ) -> Result<(Vec<Ticket>, Option<Timestamp>)> {
        let take = async {
            let (tickets, next) = self.inner.take(now, room).await?;
            let mut watch = self.watch();
            watch.taker_rests = tickets.is_empty();
            for ticket in &tickets {
                watch.waiting.remove(&ticket.job);
            }
            Ok((tickets, next))
        };
        self.gate.pass("take", take, |fault| QueueError::new("take", fault)).await
    }

    async fn count(
        &self,
        subject: &str,
        windows: &[Window],
        now: Timestamp,
    ) -> Result<RateVerdict> {
        gated!(self.count(subject, windows, now))
    }

    async fn give_back(&self, subject: &str, windows: &[Window], now: Timestamp) -> Result<()> {
        gated!(self.give_back(subject, windows, now))
    }

    async fn ping(&self) -> Result<()> {
        gated!(self.ping())
    }

    fn due_hint(&self) -> Arc<Notify> {
        self.inner.due_hint()
    }

    fn ticket_hint(&self) -> Arc<Notify> {
        self.inner.ticket_hint()
    }

    fn is_away(&self) -> bool {
        self.inner.is_away()
    }
}
