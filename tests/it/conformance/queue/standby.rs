//! A replica's own run queue beside the shared one.

use punctual::queue::memory::MemoryQueue;
use punctual::queue::standby::Standby;
use punctual::runtime::Clock;

use super::world::*;
use crate::api::away_queue::AwayQueue;

/// With a shared queue that answers: nothing is to be seen of the own one.
pub async fn open() -> Opened {
    (standby(Arc::new(MemoryQueue::new())).0, Box::new(()))
}

/// A stand-in for `shared`, and the own queue of it.
fn standby(shared: SharedQueue) -> (SharedQueue, SharedQueue) {
    let own: SharedQueue = Arc::new(MemoryQueue::new());
    (Arc::new(Standby::new(shared, own.clone(), Clock::system())), own)
}

#[tokio::test]
async fn tickets_wait_in_the_process_while_the_queue_is_away() {
    let (queue, _) = standby(Arc::new(AwayQueue::default()));
    queue.push(&[ticket(1, 1, 1, 0), ticket(2, 1, 1, 50)]).await.expect("kept");
    queue.ticket_hint().notified().await;
    let (taken, next) = queue.take(at(9), &room(9)).await.expect("taken");
    assert_eq!((jobs(&taken), next), (vec![JobId::new(at(0), 1)], Some(at(50))));
    let (none, next) = queue.take(at(9), &room(9)).await.expect("taken");
    assert_eq!((jobs(&none), next), (Vec::new(), Some(at(50))), "not an error: it rests till then");
    assert_eq!(take(&queue, 50, &room(9)).await, [JobId::new(at(0), 2)]);
    assert!(
        queue.due(SHARD, EPOCH, at(9), 9).await.is_err(),
        "there is no index but the shared one"
    );
}

#[tokio::test]
async fn what_waited_in_the_process_comes_before_what_others_share() {
    let shared: SharedQueue = Arc::new(MemoryQueue::new());
    let (queue, own) = standby(shared.clone());
    own.push(&[ticket(1, 1, 1, 0)]).await.expect("pushed");
    queue.push(&[ticket(2, 1, 1, 0)]).await.expect("pushed");
    assert_eq!(take(&queue, 0, &room(9)).await, [JobId::new(at(0), 1)]);
    assert_eq!(take(&shared, 0, &room(9)).await, [JobId::new(at(0), 2)], "it was shared");
}
