//! The queue in the process that replaces the shared queue while that is unreachable.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use punctual::queue::fallback::FallbackQueue;
use punctual::queue::memory::MemoryQueue;
use punctual::queue::{Queue, QueueError, RateVerdict, Result};
use punctual::runtime::{Clock, Tasks};
use tokio::sync::Notify;

use super::world::*;
use crate::harness::wait::until;

/// Opens the fallback on a reachable shared queue. The local queue must have no visible effect.
pub async fn open() -> Opened {
    let (queue, world) = World::new(true);
    (queue, Box::new(world))
}

/// A shared queue that can become unreachable, and the clock and tasks of the fallback.
struct World {
    shared: Arc<Leaving>,
    clock: Clock,
    tasks: Tasks,
}

impl World {
    fn new(executes: bool) -> (SharedQueue, Self) {
        let (shared, clock) = (Arc::<Leaving>::default(), Clock::manual(at(0)));
        let tasks = Tasks::new();
        let queue = FallbackQueue::start(
            shared.clone(),
            Arc::new(MemoryQueue::new()),
            executes,
            clock.clone(),
            &tasks,
        );
        (Arc::new(queue), Self { shared, clock, tasks })
    }

    fn leave(&self) {
        self.shared.is_away.store(true, Ordering::SeqCst);
    }

    /// Makes the shared queue reachable, and advances the clock until it is used again.
    async fn come_back(&self, queue: &SharedQueue) {
        self.shared.is_away.store(false, Ordering::SeqCst);
        until("the shared queue is used again", async || {
            self.clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
            let found = queue.due(OTHER_SHARD, EPOCH, (None, at(9)), 9).await.expect("an answer");
            if found == IndexAnswer::Foreign {
                queue.rebuild(OTHER_SHARD, EPOCH, &[]).await.expect("built");
            }
            self.shared.has_index(OTHER_SHARD).await.then_some(())
        })
        .await;
    }
}

/// A shard whose index shows which queue builds indexes.
const OTHER_SHARD: ShardId = ShardId(77);

/// A queue whose server can become unreachable.
#[derive(Default)]
struct Leaving {
    inner: MemoryQueue,
    is_away: AtomicBool,
}

impl Leaving {
    fn check(&self, operation: &'static str) -> Result<()> {
        match self.is_away.load(Ordering::SeqCst) {
            true => Err(QueueError::new(operation, "connection refused")),
            false => Ok(()),
        }
    }

    async fn has_index(&self, shard: ShardId) -> bool {
        self.inner.due(shard, EPOCH, (None, at(9)), 9).await.expect("within")
            != IndexAnswer::Foreign
    }
}

#[async_trait]
impl Queue for Leaving {
    async fn adopt(&self, shard: ShardId, epoch: Epoch) -> Result<IndexAnswer<()>> {
        self.check("adopt")?;
        self.inner.adopt(shard, epoch).await
    }

    async fn rebuild(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Timestamp)],
    ) -> Result<IndexAnswer<()>> {
        self.check("rebuild")?;
        self.inner.rebuild(shard, epoch, entries).await
    }

    async fn set_due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        entries: &[(OwnedSchedule, Option<Timestamp>)],
    ) -> Result<IndexAnswer<()>> {
        self.check("set_due")?;
        self.inner.set_due(shard, epoch, entries).await
    }

    async fn due(
        &self,
        shard: ShardId,
        epoch: Epoch,
        span: (Option<Timestamp>, Timestamp),
        limit: usize,
    ) -> Result<IndexAnswer<DueTicks>> {
        self.check("due")?;
        self.inner.due(shard, epoch, span, limit).await
    }

    async fn hint(&self, shard: ShardId, changes: &ShardChanges) -> Result<()> {
        self.check("hint")?;
        self.inner.hint(shard, changes).await
    }

    async fn take_hints(&self, shard: ShardId, limit: usize) -> Result<ShardChanges> {
        self.check("take_hints")?;
        self.inner.take_hints(shard, limit).await
    }

    async fn push(&self, tickets: &[Ticket]) -> Result<()> {
        self.check("push")?;
        self.inner.push(tickets).await
    }

    async fn put_back(&self, tickets: &[Ticket]) -> Result<()> {
        self.check("put_back")?;
        self.inner.put_back(tickets).await
    }

    async fn take(
        &self,
        now: Timestamp,
        room: &Capacity,
    ) -> Result<(Vec<Ticket>, Option<Timestamp>)> {
        self.check("take")?;
        self.inner.take(now, room).await
    }

    async fn count(
        &self,
        subject: &str,
        windows: &[RateWindow],
        now: Timestamp,
    ) -> Result<RateVerdict> {
        self.check("count")?;
        self.inner.count(subject, windows, now).await
    }

    async fn give_back(&self, subject: &str, windows: &[RateWindow], now: Timestamp) -> Result<()> {
        self.check("give_back")?;
        self.inner.give_back(subject, windows, now).await
    }

    async fn ping(&self) -> Result<()> {
        self.check("ping")
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

#[tokio::test]
async fn an_index_is_built_in_the_process_and_then_in_the_server_again() {
    let (queue, world) = World::new(true);
    let (early, late) = (schedule(1), schedule(2));
    queue.rebuild(SHARD, EPOCH, &[(early, at(5))]).await.expect("built");
    world.leave();
    let found = queue.due(SHARD, EPOCH, (None, at(9)), 9).await.expect("no error");
    assert_eq!(found, IndexAnswer::Foreign, "to be built from the store");
    assert!(queue.is_away());
    queue.rebuild(SHARD, EPOCH, &[(early, at(5)), (late, at(7))]).await.expect("built");
    queue.set_due(SHARD, EPOCH, &[(early, Some(at(20)))]).await.expect("set");
    let IndexAnswer::Own(due) = queue.due(SHARD, EPOCH, (None, at(9)), 9).await.expect("due")
    else {
        panic!("it was built")
    };
    assert_eq!((due.schedules, due.next), (vec![(late, at(7))], Some(at(20))));

    world.come_back(&queue).await;
    let found = queue.due(SHARD, EPOCH, (None, at(9)), 9).await.expect("due");
    assert_eq!(found, IndexAnswer::Foreign, "the server's index has missed the outage");
    assert!(!queue.is_away());
    queue.rebuild(SHARD, EPOCH, &[(early, at(20))]).await.expect("built");
    let found = world.shared.inner.due(SHARD, EPOCH, (None, at(30)), 9).await.expect("due");
    assert_eq!(found, IndexAnswer::Own(DueTicks { schedules: vec![(early, at(20))], next: None }));
    world.tasks.finish(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn of_an_earlier_outage_no_index_is_left() {
    let (queue, world) = World::new(true);
    for tick in [5, 6] {
        world.leave();
        let found = queue.due(SHARD, EPOCH, (None, at(9)), 9).await.expect("no error");
        assert_eq!(found, IndexAnswer::Foreign, "whatever the previous outage has left");
        queue.rebuild(SHARD, EPOCH, &[(schedule(1), at(tick))]).await.expect("built");
        world.come_back(&queue).await;
    }
}

#[tokio::test]
async fn tickets_wait_in_the_process_while_the_queue_is_away() {
    let (queue, world) = World::new(true);
    world.leave();
    queue.push(&[ticket(1, 1, 1, 0), ticket(2, 1, 1, 50)]).await.expect("kept");
    queue.ticket_hint().notified().await;
    let (taken, next) = queue.take(at(9), &room(9)).await.expect("taken");
    assert_eq!((jobs(&taken), next), (vec![JobId::new(at(0), 1)], Some(at(50))));
    let (none, next) = queue.take(at(9), &room(9)).await.expect("taken");
    assert_eq!(
        (jobs(&none), next),
        (Vec::new(), Some(at(50))),
        "not an error: the shared queue is not called until then"
    );
    assert_eq!(take(&queue, 50, &room(9)).await, [JobId::new(at(0), 2)]);
}

#[tokio::test]
async fn tickets_without_a_taker_are_dropped() {
    let (queue, world) = World::new(false);
    world.leave();
    queue.push(&[ticket(1, 1, 1, 0)]).await.expect("no error");
    assert!(take(&queue, 9, &room(9)).await.is_empty());
}

#[tokio::test]
async fn tickets_of_the_process_come_before_shared_ones() {
    let (queue, world) = World::new(true);
    world.leave();
    queue.push(&[ticket(1, 1, 1, 0)]).await.expect("kept");
    world.shared.inner.push(&[ticket(2, 1, 1, 0)]).await.expect("pushed");
    world.come_back(&queue).await;
    assert_eq!(take(&queue, 0, &room(9)).await, [JobId::new(at(0), 1)]);
    assert_eq!(take(&queue, 0, &room(9)).await, [JobId::new(at(0), 2)]);
}

#[tokio::test]
async fn hints_of_the_process_reach_its_leader_meanwhile() {
    let (queue, world) = World::new(true);
    world.leave();
    queue.due(SHARD, EPOCH, (None, at(9)), 9).await.expect("no error");
    let changes = ShardChanges::of([schedule(1)]);
    queue.hint(SHARD, &changes).await.expect_err("other replicas get no hint");
    queue.due_hint().notified().await;
    assert_eq!(queue.take_hints(SHARD, 9).await.expect("taken"), changes);
}
