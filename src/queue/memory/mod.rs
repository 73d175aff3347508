//! The queue of one process: maps behind locks, lost when the process ends.
//!
//! No operation waits while it holds a lock, and none fails. A panic under a lock can lose or add a
//! hint at worst.

mod counters;
mod due;
mod hints;
mod run_queue;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::fallback::LocalQueue;
use super::{
    Capacity, DueTicks, IndexAnswer, OwnedSchedule, Queue, RateVerdict, RateWindow, Result,
    ShardChanges, TakenTickets,
};
use crate::domain::Timestamp;
use crate::domain::shard::{Epoch, ShardId};
use crate::domain::ticket::Ticket;
use crate::runtime::Mutex;
use counters::Counters;
use due::DueIndex;
use hints::MemoryHints;
use run_queue::MemoryRunQueue;

/// The queue of one process.
#[derive(Default)]
pub struct MemoryQueue {
    indexes: Mutex<HashMap<ShardId, DueIndex>>,
    hints: Mutex<MemoryHints>,
    run_queue: Mutex<MemoryRunQueue>,
    counters: Mutex<Counters>,
    due_hint: Arc<Notify>,
    ticket_hint: Arc<Notify>,
}

impl MemoryQueue {
    /// Creates an empty queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes everything, as if a server was wiped; for tests of QUEUE-1.
    pub fn wipe(&self) {
        self.forget_due();
        *self.run_queue.lock() = MemoryRunQueue::default();
        *self.counters.lock() = Counters::default();
    }
}

impl LocalQueue for MemoryQueue {
    fn forget_due(&self) {
        self.indexes.lock().clear();
        *self.hints.lock() = MemoryHints::default();
    }
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn adopt(&self, shard: ShardId, epoch: Epoch) -> Result<IndexAnswer<()>> {
        match self.indexes.lock().get_mut(&shard).filter(|index| index.epoch <= epoch) {
            Some(index) => {
                index.epoch = epoch;
                Ok(IndexAnswer::Own(()))
            }
            None => Ok(IndexAnswer::Foreign),
        }
    }

    async fn rebuild(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Timestamp)],
    ) -> Result<IndexAnswer<()>> {
        let mut indexes = self.indexes.lock();
        if indexes.get(&shard).is_some_and(|index| index.epoch > epoch) {
            return Ok(IndexAnswer::Foreign);
        }
        indexes.insert(shard, DueIndex::new(epoch, entries));
        Ok(IndexAnswer::Own(()))
    }

    async fn set_due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Option<Timestamp>)],
    ) -> Result<IndexAnswer<()>> {
        let mut indexes = self.indexes.lock();
        let Some(index) = indexes.get_mut(&shard).filter(|index| index.epoch == epoch) else {
            return Ok(IndexAnswer::Foreign);
        };
        for (schedule, tick) in entries {
            index.set(*schedule, *tick);
        }
        Ok(IndexAnswer::Own(()))
    }

    async fn due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        (after, now): (Option<Timestamp>, Timestamp),
        limit: usize,
    ) -> Result<IndexAnswer<DueTicks>> {
        let indexes = self.indexes.lock();
        match indexes.get(&shard).filter(|index| index.epoch == epoch) {
            Some(index) => Ok(IndexAnswer::Own(index.due(after, now, limit))),
            None => Ok(IndexAnswer::Foreign),
        }
    }

    async fn hint(&self, shard: ShardId, changes: &ShardChanges) -> Result<()> {
        self.hints.lock().add(shard, changes);
        self.due_hint.notify_one();
        Ok(())
    }

    async fn take_hints(&self, shard: ShardId, limit: usize) -> Result<ShardChanges> {
        Ok(self.hints.lock().take(shard, limit))
    }

    async fn push(&self, tickets: &[Ticket]) -> Result<()> {
        self.run_queue.lock().push(tickets);
        self.ticket_hint.notify_one();
        Ok(())
    }

    async fn put_back(&self, tickets: &[Ticket]) -> Result<()> {
        self.run_queue.lock().push(tickets);
        Ok(())
    }

    async fn take(&self, now: Timestamp, capacity: &Capacity) -> Result<TakenTickets> {
        Ok(self.run_queue.lock().take(now, capacity))
    }

    async fn count(
        &self,
        subject: &str,
        windows: &[RateWindow],
        now: Timestamp,
    ) -> Result<RateVerdict> {
        Ok(self.counters.lock().count(subject, windows, now))
    }

    async fn give_back(&self, subject: &str, windows: &[RateWindow], now: Timestamp) -> Result<()> {
        self.counters.lock().give_back(subject, windows, now);
        Ok(())
    }

    async fn ping(&self) -> Result<()> {
        Ok(())
    }

    fn due_hint(&self) -> Arc<Notify> {
        self.due_hint.clone()
    }

    fn ticket_hint(&self) -> Arc<Notify> {
        self.ticket_hint.clone()
    }

    fn is_away(&self) -> bool {
        false
    }
}
