//! What an executor's replica does while the queue's server is away: tickets that cannot be pushed
//! wait within the process, for its own executor. So the sweep feeds it directly.
//!
//! A server that has no room left takes no tickets but hands them out, so that pushing and taking go
//! their own ways, and one can come and go quickly: the log says that it is away at once, and that
//! it is back when it has been for a while.
//!
//! Each replica's sweep finds the same late jobs, so several may hold a ticket of the same job; one
//! of them gets its claim.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::{Changes, Due, Index, Queue, QueueError, Result, Room, SharedQueue, Verdict, Window};
use crate::domain::shard::{Epoch, ShardId};
use crate::domain::ticket::Ticket;
use crate::domain::{ScheduleId, Timestamp};
use crate::runtime::Clock;

/// For how long nothing fails before the log says that the queue is back.
const LASTS: Duration = Duration::from_secs(10);

/// A queue that others share, and what stands in for its run queue.
pub struct Standby {
    shared: SharedQueue,
    own: SharedQueue,
    clock: Clock,
    pushing: Mutex<Health>,
    taking: Mutex<Health>,
}

/// Whether the shared queue does one thing, as the log has said.
#[derive(Default)]
struct Health {
    /// When it failed last, if the log has said so and nothing else since.
    failed_at: Option<Duration>,
}

/// What the log shall say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Away,
    Back,
}

impl Health {
    fn note(&mut self, works: bool, now: Duration) -> Option<News> {
        if !works {
            return self.failed_at.replace(now).is_none().then_some(News::Away);
        }
        let has_lasted = now.saturating_sub(self.failed_at?) >= LASTS;
        has_lasted.then(|| {
            self.failed_at = None;
            News::Back
        })
    }
}

impl Standby {
    /// Stands by for `shared` with `own`, a queue within the process.
    pub fn new(shared: SharedQueue, own: SharedQueue, clock: Clock) -> Self {
        Self { shared, own, clock, pushing: Mutex::default(), taking: Mutex::default() }
    }

    /// Says in the log when the shared queue ceases to do one thing, and when it does it again.
    fn note(&self, what: &'static str, health: &Mutex<Health>, error: Option<&QueueError>) {
        let now = self.clock.monotonic();
        let mut health = health.lock().unwrap_or_else(PoisonError::into_inner);
        match (health.note(error.is_none(), now), error) {
            (Some(News::Away), Some(error)) => tracing::warn!(
                what, %error, "the queue is away, running what the store says is due"
            ),
            (Some(_), _) => tracing::info!(what, "the queue is back"),
            (None, _) => {}
        }
    }

    fn note_push(&self, error: Option<&QueueError>) {
        self.note("pushing", &self.pushing, error);
    }

    fn note_take(&self, error: Option<&QueueError>) {
        self.note("taking", &self.taking, error);
    }
}

#[async_trait]
impl Queue for Standby {
    async fn adopt(&self, shard: ShardId, epoch: Epoch) -> Result<Index<()>> {
        self.shared.adopt(shard, epoch).await
    }

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

    async fn hint(&self, shard: ShardId, changes: &Changes) -> Result<()> {
        self.shared.hint(shard, changes).await
    }

    async fn take_hints(&self, shard: ShardId, limit: usize) -> Result<Changes> {
        self.shared.take_hints(shard, limit).await
    }

    async fn push(&self, tickets: &[Ticket]) -> Result<()> {
        let pushed = self.shared.push(tickets).await;
        self.note_push(pushed.as_ref().err());
        if pushed.is_ok() {
            return Ok(());
        }
        self.own.push(tickets).await?;
        self.ticket_hint().notify_one();
        Ok(())
    }

    async fn put_back(&self, tickets: &[Ticket]) -> Result<()> {
        let pushed = self.shared.put_back(tickets).await;
        self.note_push(pushed.as_ref().err());
        match pushed {
            Ok(()) => Ok(()),
            Err(_) => self.own.put_back(tickets).await,
        }
    }

    /// Of the own ones first: they are late already.
    async fn take(&self, now: Timestamp, room: &Room) -> Result<(Vec<Ticket>, Option<Timestamp>)> {
        let (own, own_next) = self.own.take(now, room).await?;
        if !own.is_empty() {
            return Ok((own, own_next));
        }
        match self.shared.take(now, room).await {
            Ok((tickets, next)) => {
                self.note_take(None);
                Ok((tickets, next.into_iter().chain(own_next).min()))
            }
            Err(error) => {
                self.note_take(Some(&error));
                Ok((Vec::new(), own_next))
            }
        }
    }

    async fn count(&self, subject: &str, windows: &[Window], now: Timestamp) -> Result<Verdict> {
        self.shared.count(subject, windows, now).await
    }

    async fn give_back(&self, subject: &str, windows: &[Window], now: Timestamp) -> Result<()> {
        self.shared.give_back(subject, windows, now).await
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_what_lasts() {
        let mut health = Health::default();
        let mut note = |works, second| health.note(works, Duration::from_secs(second));
        assert_eq!(note(true, 0), None);
        assert_eq!(note(false, 1), Some(News::Away));
        // A server without room takes a ticket now and then.
        for second in 2..60 {
            assert_eq!(note(second % 3 == 0, second), None);
        }
        assert_eq!(note(true, 68), None);
        assert_eq!(note(true, 69), Some(News::Back));
        assert_eq!(note(true, 99), None);
        assert_eq!(note(false, 100), Some(News::Away));
    }
}
