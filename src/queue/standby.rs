//! What an executor's replica does while the queue's server is away: tickets that cannot be pushed
//! wait within the process, for its own executor. So the sweep feeds it directly.
//!
//! Each replica's sweep finds the same late jobs, so several may hold a ticket of the same job; one
//! of them gets its claim.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use tokio::sync::Notify;

use super::{Due, Index, Queue, QueueError, Result, Room, SharedQueue, Verdict, Window};
use crate::domain::shard::{Epoch, ShardId};
use crate::domain::ticket::Ticket;
use crate::domain::{ScheduleId, Timestamp};

/// A queue that others share, and what stands in for its run queue.
pub struct Standby {
    shared: SharedQueue,
    own: SharedQueue,
    away: AtomicBool,
}

impl Standby {
    /// Stands by for `shared` with `own`, a queue within the process.
    pub fn new(shared: SharedQueue, own: SharedQueue) -> Self {
        Self { shared, own, away: AtomicBool::new(false) }
    }

    /// Says when the shared queue goes away and when it is back.
    fn note(&self, error: Option<&QueueError>) {
        let away = error.is_some();
        if self.away.swap(away, Ordering::Relaxed) == away {
            return;
        }
        match error {
            Some(error) => {
                tracing::warn!(%error, "the queue is away, running what the store says is due");
            }
            None => tracing::info!("the queue is back"),
        }
    }
}

#[async_trait]
impl Queue for Standby {
    async fn rebuild(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(ScheduleId, Timestamp)],
    ) -> Result<Index<()>> {
        self.shared.rebuild(shard, epoch, entries).await
    }

    async fn set_due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(ScheduleId, Option<Timestamp>)],
    ) -> Result<Index<()>> {
        self.shared.set_due(shard, epoch, entries).await
    }

    async fn due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        now: Timestamp,
        limit: usize,
    ) -> Result<Index<Due>> {
        self.shared.due(shard, epoch, now, limit).await
    }

    async fn hint(&self, shard: ShardId, schedules: &[ScheduleId]) -> Result<()> {
        self.shared.hint(shard, schedules).await
    }

    async fn take_hints(&self, shard: ShardId, limit: usize) -> Result<Vec<ScheduleId>> {
        self.shared.take_hints(shard, limit).await
    }

    async fn push(&self, tickets: &[Ticket]) -> Result<()> {
        let Err(error) = self.shared.push(tickets).await else { return Ok(()) };
        self.note(Some(&error));
        self.own.push(tickets).await?;
        self.ticket_hint().notify_one();
        Ok(())
    }

    /// Of the own ones first: they are late already.
    async fn take(&self, now: Timestamp, room: &Room) -> Result<(Vec<Ticket>, Option<Timestamp>)> {
        let (own, own_next) = self.own.take(now, room).await?;
        if !own.is_empty() {
            return Ok((own, own_next));
        }
        match self.shared.take(now, room).await {
            Ok((tickets, next)) => {
                self.note(None);
                Ok((tickets, next.into_iter().chain(own_next).min()))
            }
            Err(error) => {
                self.note(Some(&error));
                Ok((Vec::new(), own_next))
            }
        }
    }

    async fn count(&self, subject: &str, windows: &[Window], now: Timestamp) -> Result<Verdict> {
        self.shared.count(subject, windows, now).await
    }

    async fn ping(&self) -> Result<()> {
        self.shared.ping().await
    }

    fn due_hint(&self) -> Arc<Notify> {
        self.shared.due_hint()
    }

    fn ticket_hint(&self) -> Arc<Notify> {
        self.shared.ticket_hint()
    }
}
