//! A queue that continues in the memory of the replica while the shared server is unreachable.
//!
//! Place in the flow: between the leaders and the executor of a replica and the shared queue.
//! During an outage, the leaders rebuild the due indexes of their shards in memory from the store,
//! as after a wipe. The tickets stay in memory, and the executor of the same replica takes them.
//! Replicas need not coordinate: the epochs in the store decide which replica fires a tick, and the
//! claims decide which one runs a job.
//!
//! - An outage begins with the first call that fails, for all shards at once. Otherwise each shard
//!   would first wait for a failure of its own. It ends when the server has answered each second
//!   for three seconds.
//! - An index changes its location only when it is built anew there. So a leader gets
//!   `IndexAnswer::Foreign` at each change, and never an error.
//! - Hints of other replicas stay in the shared queue or with their senders until the queue is
//!   reachable. Until then a leader finds the changed schedules by comparing its indexes with the
//!   store repeatedly.
//! - A server without memory takes no tickets but still hands them out. So it is asked for tickets
//!   during an outage too, until that fails once.

mod outage;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

use super::{
    Capacity, DueTicks, IndexAnswer, OwnedSchedule, Queue, RateVerdict, RateWindow, Result,
    ShardChanges, SharedQueue, TakenTickets,
};
use crate::domain::Timestamp;
use crate::domain::shard::{Epoch, ShardId};
use crate::domain::ticket::Ticket;
use crate::runtime::{Clock, TaskKind, Tasks};
use outage::{IndexLocation, Outage};

/// The time between two checks of an unreachable server.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// The time for which the server has to answer before it is used again.
const STABLE_FOR: Duration = Duration::from_secs(3);

/// A queue within the process.
pub trait LocalQueue: Queue {
    /// Forgets all due indexes and hints, and keeps the tickets.
    fn forget_due(&self);
}

/// A shared queue, and the queue of this process that replaces it while it fails.
pub struct FallbackQueue {
    shared: SharedQueue,
    own: Arc<dyn LocalQueue>,
    /// Set if an executor takes tickets from here.
    executes: bool,
    outage: Arc<Outage>,
}

impl FallbackQueue {
    /// Replaces `shared` by `own` while it fails. Without an executor that takes tickets, tickets
    /// that cannot be shared are dropped: the job rescuers of replicas with an executor find their
    /// jobs.
    pub fn start(
        shared: SharedQueue,
        own: Arc<dyn LocalQueue>,
        executes: bool,
        clock: Clock,
        tasks: &Tasks,
    ) -> Self {
        let outage = Arc::new(Outage::default());
        let watching = watch(shared.clone(), own.clone(), outage.clone(), clock);
        let stopping = tasks.stopping().clone();
        tasks.spawn(TaskKind::Hints, async move {
            stopping.run_until_cancelled(watching).await;
        });
        Self { shared, own, executes, outage }
    }

    /// Waits for the answer of the queue that has a shard's due index now. A failure of the shared
    /// queue begins an outage and becomes `Foreign`, so that the leader builds the index anew.
    async fn of_index<T>(
        &self,
        shard: ShardId,
        shared: impl Future<Output = Result<IndexAnswer<T>>>,
        own: impl Future<Output = Result<IndexAnswer<T>>>,
    ) -> Result<IndexAnswer<T>> {
        match self.outage.location(shard) {
            IndexLocation::Shared => shared.await.or_else(|error| {
                self.outage.begin(&error);
                self.outage.mark_stale(shard);
                Ok(IndexAnswer::Foreign)
            }),
            IndexLocation::Own => own.await,
            IndexLocation::Nowhere => Ok(IndexAnswer::Foreign),
        }
    }

    /// Waits for the shared queue's answer; `None` during an outage. A failure begins an outage.
    async fn unless_away<T>(&self, answer: impl Future<Output = Result<T>>) -> Option<T> {
        if self.outage.is_on() {
            return None;
        }
        answer.await.inspect_err(|error| self.outage.begin(error)).ok()
    }
}

/// Ends each outage when the server has answered for long enough.
async fn watch(shared: SharedQueue, own: Arc<dyn LocalQueue>, outage: Arc<Outage>, clock: Clock) {
    loop {
        outage.begun.notified().await;
        let mut well_since = None;
        loop {
            clock.sleep(CHECK_EVERY).await;
            let is_healthy = is_healthy(&shared, &outage.stale(), clock.now()).await;
            let now = clock.monotonic();
            well_since = is_healthy.then(|| well_since.unwrap_or(now));
            if well_since.is_some_and(|since| now.saturating_sub(since) >= STABLE_FOR) {
                break;
            }
        }
        outage.end();
        own.forget_due();
    }
}

/// Returns `true` if the server takes writes and answers for these shards, which may be on several
/// nodes.
async fn is_healthy(shared: &SharedQueue, shards: &[ShardId], now: Timestamp) -> bool {
    if shared.ping().await.is_err() {
        return false;
    }
    for shard in shards {
        // No leader has this epoch, so nothing is read.
        if shared.due(*shard, Epoch(0), (None, now), 1).await.is_err() {
            return false;
        }
    }
    true
}

#[async_trait]
impl Queue for FallbackQueue {
    async fn adopt(&self, shard: ShardId, epoch: Epoch) -> Result<IndexAnswer<()>> {
        let own = self.own.adopt(shard, epoch);
        self.of_index(shard, self.shared.adopt(shard, epoch), own).await
    }

    async fn rebuild(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Timestamp)],
    ) -> Result<IndexAnswer<()>> {
        if let Some(index) = self.unless_away(self.shared.rebuild(shard, epoch, entries)).await {
            self.outage.mark_built_shared(shard);
            return Ok(index);
        }
        self.outage.mark_stale(shard);
        let index = self.own.rebuild(shard, epoch, entries).await?;
        self.outage.mark_built_here(shard);
        Ok(index)
    }

    async fn set_due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Option<Timestamp>)],
    ) -> Result<IndexAnswer<()>> {
        let own = self.own.set_due(shard, epoch, entries);
        self.of_index(shard, self.shared.set_due(shard, epoch, entries), own).await
    }

    async fn due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        span: (Option<Timestamp>, Timestamp),
        limit: usize,
    ) -> Result<IndexAnswer<DueTicks>> {
        let own = self.own.due(shard, epoch, span, limit);
        self.of_index(shard, self.shared.due(shard, epoch, span, limit), own).await
    }

    async fn hint(&self, shard: ShardId, changes: &ShardChanges) -> Result<()> {
        if self.outage.is_on() {
            self.own.hint(shard, changes).await?;
            self.due_hint().notify_one();
        }
        self.shared.hint(shard, changes).await
    }

    async fn take_hints(&self, shard: ShardId, limit: usize) -> Result<ShardChanges> {
        if !self.outage.is_on() {
            match self.shared.take_hints(shard, limit).await {
                Ok(changes) => return Ok(changes),
                Err(error) => {
                    self.outage.begin(&error);
                    self.outage.mark_stale(shard);
                }
            }
        }
        self.own.take_hints(shard, limit).await
    }

    async fn push(&self, tickets: &[Ticket]) -> Result<()> {
        if self.unless_away(self.shared.push(tickets)).await.is_none() && self.executes {
            self.own.push(tickets).await?;
            self.ticket_hint().notify_one();
        }
        Ok(())
    }

    async fn put_back(&self, tickets: &[Ticket]) -> Result<()> {
        match self.unless_away(self.shared.put_back(tickets)).await {
            Some(()) => Ok(()),
            None => self.own.put_back(tickets).await,
        }
    }

    /// Takes from the own queue first, because its tickets are late already.
    async fn take(&self, now: Timestamp, capacity: &Capacity) -> Result<TakenTickets> {
        let (own, own_next) = self.own.take(now, capacity).await?;
        if !own.is_empty() || self.outage.gives_no_tickets() {
            return Ok((own, own_next));
        }
        match self.shared.take(now, capacity).await {
            Ok((tickets, next)) => Ok((tickets, next.into_iter().chain(own_next).min())),
            Err(error) => {
                self.outage.record_no_tickets(&error);
                Ok((Vec::new(), own_next))
            }
        }
    }

    async fn count(
        &self,
        subject: &str,
        windows: &[RateWindow],
        now: Timestamp,
    ) -> Result<RateVerdict> {
        self.shared.count(subject, windows, now).await
    }

    async fn give_back(&self, subject: &str, windows: &[RateWindow], now: Timestamp) -> Result<()> {
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

    fn is_away(&self) -> bool {
        self.outage.is_on()
    }
}
