//! A queue whose calls meet faults, and whose caller repeats them.
//!
//! A write can be repeated. The contents of a lost response come back from the store: tickets
//! through the job rescuer, changes through the comparison of the leader.

use async_trait::async_trait;
use punctual::queue::{Queue, RateVerdict, Result, ShardChanges};
use tokio::sync::Notify;

use super::world::*;
use crate::conformance::faults::Faults;

/// A queue whose calls meet faults.
pub struct FlakyQueue {
    pub inner: SharedQueue,
    pub faults: Arc<Faults>,
}

/// Makes a call that can simply be repeated.
macro_rules! repeatable {
    ($self:ident.$name:ident($($argument:expr),*)) => {
        $self.faults.repeatable(stringify!($name), || $self.inner.$name($($argument),*)).await
    };
}

#[async_trait]
impl Queue for FlakyQueue {
    async fn adopt(&self, shard: ShardId, epoch: Epoch) -> Result<IndexAnswer<()>> {
        repeatable!(self.adopt(shard, epoch))
    }

    async fn rebuild(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Timestamp)],
    ) -> Result<IndexAnswer<()>> {
        repeatable!(self.rebuild(shard, epoch, entries))
    }

    async fn set_due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Option<Timestamp>)],
    ) -> Result<IndexAnswer<()>> {
        repeatable!(self.set_due(shard, epoch, entries))
    }

    async fn due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        span: (Option<Timestamp>, Timestamp),
        limit: usize,
    ) -> Result<IndexAnswer<DueTicks>> {
        repeatable!(self.due(shard, epoch, span, limit))
    }

    async fn hint(&self, shard: ShardId, changes: &ShardChanges) -> Result<()> {
        repeatable!(self.hint(shard, changes))
    }

    async fn take_hints(&self, shard: ShardId, limit: usize) -> Result<ShardChanges> {
        let take = || self.inner.take_hints(shard, limit);
        let again = async |lost: Result<ShardChanges>| {
            self.inner.hint(shard, &lost?).await?;
            take().await
        };
        self.faults.call("take_hints", take, again).await
    }

    async fn push(&self, tickets: &[Ticket]) -> Result<()> {
        repeatable!(self.push(tickets))
    }

    async fn put_back(&self, tickets: &[Ticket]) -> Result<()> {
        repeatable!(self.put_back(tickets))
    }

    async fn take(
        &self,
        now: Timestamp,
        room: &Capacity,
    ) -> Result<(Vec<Ticket>, Option<Timestamp>)> {
        let take = || self.inner.take(now, room);
        let again = async |lost: Result<(Vec<_>, _)>| {
            self.inner.push(&lost?.0).await?;
            take().await
        };
        self.faults.call("take", take, again).await
    }

    /// A count is never repeated, because that would count another request.
    async fn count(
        &self,
        subject: &str,
        windows: &[RateWindow],
        now: Timestamp,
    ) -> Result<RateVerdict> {
        self.faults.never_repeated("count", || self.inner.count(subject, windows, now)).await
    }

    async fn give_back(&self, subject: &str, windows: &[RateWindow], now: Timestamp) -> Result<()> {
        let given = || self.inner.give_back(subject, windows, now);
        self.faults.never_repeated("give_back", given).await
    }

    async fn ping(&self) -> Result<()> {
        repeatable!(self.ping())
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
