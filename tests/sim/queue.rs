//! A replica's way to the queue that replicas share. It leads through the gate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use punctual::domain::Timestamp;
use punctual::domain::shard::{Epoch, ShardId};
use punctual::domain::ticket::Ticket;
use punctual::queue::{
    Capacity, DueTicks, IndexAnswer, OwnedSchedule, Queue, QueueError, RateVerdict, RateWindow,
    Result, ShardChanges,
};
use tokio::sync::Notify;

use crate::gate::Gate;
use crate::recorded::RecordedQueue;

/// A queue whose operations may meet faults.
pub struct GatedQueue {
    shared: Arc<RecordedQueue>,
    gate: Arc<Gate>,
    /// `true` while this replica cannot reach the queue.
    is_cut: AtomicBool,
    /// `true` if the last take has failed.
    is_mute: AtomicBool,
    /// `true` for a wrong variant, which hides that the queue cannot be reached.
    hides: AtomicBool,
}

impl GatedQueue {
    pub fn new(gate: Arc<Gate>, shared: Arc<RecordedQueue>) -> Self {
        let [is_cut, is_mute, hides] = [false; 3].map(AtomicBool::new);
        Self { shared, gate, is_cut, is_mute, hides }
    }

    /// Removes all content.
    pub fn wipe(&self) {
        self.shared.wipe();
    }

    /// Pushes old tickets again: of waiting, running or long finished jobs.
    pub async fn repeat(&self, pick: impl Fn(usize) -> Vec<usize>) {
        self.shared.repeat(pick).await;
    }

    /// Returns `true` if no ticket that may start by `now` waits, and all taken tickets have been
    /// handled.
    pub fn is_idle(&self, now: Timestamp) -> bool {
        self.shared.is_idle(now)
    }

    /// Returns `true` if the last take has failed. A `FallbackQueue` then takes no tickets from
    /// here until the outage has ended.
    pub fn is_mute(&self) -> bool {
        self.is_mute.load(Ordering::Relaxed)
    }

    /// Makes the queue unreachable for this replica, or reachable again.
    pub fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    /// Answers as if the queue were empty while it cannot be reached, so that no replica builds its
    /// indexes elsewhere.
    pub fn hide(&self) {
        self.hides.store(true, Ordering::Relaxed);
    }

    fn is_hidden(&self) -> bool {
        self.hides.load(Ordering::Relaxed) && self.is_cut.load(Ordering::Relaxed)
    }

    async fn pass<T>(
        &self,
        name: &'static str,
        operation: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if self.is_cut.load(Ordering::Relaxed) {
            return Err(QueueError::new(name, "the replica is cut off"));
        }
        self.gate.pass(name, operation, |fault| QueueError::new(name, fault)).await
    }
}

/// Passes an operation on. The wrong variant gives the hidden answer.
macro_rules! gated {
    ($self:ident.$name:ident($($argument:expr),*)) => {
        $self.pass(stringify!($name), $self.shared.$name($($argument),*)).await
    };
    ($self:ident.$name:ident($($argument:expr),*), hidden: $hidden:expr) => {
        if $self.is_hidden() {
            Ok($hidden)
        } else {
            gated!($self.$name($($argument),*))
        }
    };
}

#[async_trait]
impl Queue for GatedQueue {
    async fn adopt(&self, shard: ShardId, epoch: Epoch) -> Result<IndexAnswer<()>> {
        gated!(self.adopt(shard, epoch), hidden: IndexAnswer::Own(()))
    }

    async fn rebuild(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Timestamp)],
    ) -> Result<IndexAnswer<()>> {
        gated!(self.rebuild(shard, epoch, entries), hidden: IndexAnswer::Own(()))
    }

    async fn set_due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Option<Timestamp>)],
    ) -> Result<IndexAnswer<()>> {
        gated!(self.set_due(shard, epoch, entries), hidden: IndexAnswer::Own(()))
    }

    async fn due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        (after, now): (Option<Timestamp>, Timestamp),
        limit: usize,
    ) -> Result<IndexAnswer<DueTicks>> {
        gated!(self.due(shard, epoch, (after, now), limit), hidden: IndexAnswer::Own(DueTicks::default()))
    }

    async fn hint(&self, shard: ShardId, changes: &ShardChanges) -> Result<()> {
        gated!(self.hint(shard, changes))
    }

    async fn take_hints(&self, shard: ShardId, limit: usize) -> Result<ShardChanges> {
        gated!(self.take_hints(shard, limit), hidden: ShardChanges::default())
    }

    async fn push(&self, tickets: &[Ticket]) -> Result<()> {
        gated!(self.push(tickets), hidden: ())
    }

    async fn put_back(&self, tickets: &[Ticket]) -> Result<()> {
        self.push(tickets).await
    }

    async fn take(
        &self,
        now: Timestamp,
        room: &Capacity,
    ) -> Result<(Vec<Ticket>, Option<Timestamp>)> {
        let taken = gated!(self.take(now, room), hidden: (Vec::new(), None));
        self.is_mute.store(taken.is_err(), Ordering::Relaxed);
        if taken.is_err() {
            self.shared.record_failed_take();
        }
        taken
    }

    async fn count(
        &self,
        subject: &str,
        windows: &[RateWindow],
        now: Timestamp,
    ) -> Result<RateVerdict> {
        gated!(self.count(subject, windows, now))
    }

    async fn give_back(&self, subject: &str, windows: &[RateWindow], now: Timestamp) -> Result<()> {
        gated!(self.give_back(subject, windows, now))
    }

    async fn ping(&self) -> Result<()> {
        gated!(self.ping())
    }

    fn due_hint(&self) -> Arc<Notify> {
        self.shared.due_hint()
    }

    fn ticket_hint(&self) -> Arc<Notify> {
        self.shared.ticket_hint()
    }

    fn is_away(&self) -> bool {
        self.shared.is_away()
    }
}
