//! The suite's environment for the queue in memory.

use punctual::queue::memory::MemoryQueue;

use super::world::*;

pub async fn open() -> Opened {
    (Arc::new(MemoryQueue::new()), Box::new(()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_takes_the_few_tickets_of_others() {
    let (queue, _home) = open().await;
    super::tickets::a_full_queue_takes_the_few_tickets_of_others(&queue).await;
}
