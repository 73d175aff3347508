//! A queue within the process, and a record of its waiting tickets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use punctual::domain::shard::{Epoch, ShardId};
use punctual::domain::ticket::Ticket;
use punctual::domain::{JobId, Timestamp};
use punctual::queue::fallback::LocalQueue;
use punctual::queue::memory::MemoryQueue;
use punctual::queue::{
    Capacity, DueTicks, IndexAnswer, OwnedSchedule, Queue, RateVerdict, RateWindow, Result,
    ShardChanges,
};
use tokio::sync::Notify;

/// A queue within the process whose tickets are recorded. It never fails.
#[derive(Default)]
pub struct RecordedQueue {
    inner: MemoryQueue,
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

impl RecordedQueue {
    /// Removes all content.
    pub fn wipe(&self) {
        self.inner.wipe();
        self.watch().waiting.clear();
    }

    /// Pushes old tickets again: of waiting, running or long finished jobs.
    pub async fn repeat(&self, pick: impl Fn(usize) -> Vec<usize>) {
        let known = self.watch().known.clone();
        let again: Vec<_> = pick(known.len()).into_iter().map(|index| known[index]).collect();
        self.inner.push(&again).await.expect("memory does not fail");
    }

    /// Records that a take has failed. It returned nothing.
    pub fn record_failed_take(&self) {
        self.watch().taker_rests = true;
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

impl LocalQueue for RecordedQueue {
    fn forget_due(&self) {
        self.inner.forget_due();
    }
}

#[async_trait]
impl Queue for RecordedQueue {
    async fn adopt(&self, shard: ShardId, epoch: Epoch) -> Result<IndexAnswer<()>> {
        self.inner.adopt(shard, epoch).await
    }

    async fn rebuild(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Timestamp)],
    ) -> Result<IndexAnswer<()>> {
        self.inner.rebuild(shard, epoch, entries).await
    }

    async fn set_due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Option<Timestamp>)],
    ) -> Result<IndexAnswer<()>> {
        self.inner.set_due(shard, epoch, entries).await
    }

    async fn due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        span: (Option<Timestamp>, Timestamp),
        limit: usize,
    ) -> Result<IndexAnswer<DueTicks>> {
        self.inner.due(shard, epoch, span, limit).await
    }

    async fn hint(&self, shard: ShardId, changes: &ShardChanges) -> Result<()> {
        self.inner.hint(shard, changes).await
    }

    async fn take_hints(&self, shard: ShardId, limit: usize) -> Result<ShardChanges> {
        self.inner.take_hints(shard, limit).await
    }

    async fn push(&self, tickets: &[Ticket]) -> Result<()> {
        let starts = tickets.iter().map(|ticket| (ticket.job, ticket.start));
        {
            let mut watch = self.watch();
            watch.waiting.extend(starts);
            watch.known.extend(tickets);
        }
        self.inner.push(tickets).await
    }

    async fn put_back(&self, tickets: &[Ticket]) -> Result<()> {
        self.push(tickets).await
    }

    async fn take(
        &self,
        now: Timestamp,
        room: &Capacity,
    ) -> Result<(Vec<Ticket>, Option<Timestamp>)> {
        let (tickets, next) = self.inner.take(now, room).await?;
        let mut watch = self.watch();
        watch.taker_rests = tickets.is_empty();
        for ticket in &tickets {
            watch.waiting.remove(&ticket.job);
        }
        Ok((tickets, next))
    }

    async fn count(
        &self,
        subject: &str,
        windows: &[RateWindow],
        now: Timestamp,
    ) -> Result<RateVerdict> {
        self.inner.count(subject, windows, now).await
    }

    async fn give_back(&self, subject: &str, windows: &[RateWindow], now: Timestamp) -> Result<()> {
        self.inner.give_back(subject, windows, now).await
    }

    async fn ping(&self) -> Result<()> {
        self.inner.ping().await
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
