//! The embedded adapter.

use punctual::queue::memory::MemoryQueue;

use super::world::*;

pub async fn open() -> Opened {
    (Arc::new(MemoryQueue::new()), Box::new(()))
}
