//! A leader whose queue responds at once, like the one in the process.

use std::sync::Arc;
use std::time::Duration;

use punctual::cluster::single::SingleNode;
use punctual::domain::plan::Plans;
use punctual::domain::shard::ShardId;
use punctual::queue::Queue;
use punctual::runtime::{Random, Worker};
use punctual::scheduler::{Context, Leader};

use super::core::WatchedQueue;
use crate::api::harness::Service;
use crate::harness::wait::{live_for, until};

/// More shards than one round can serve.
const SHARDS: u16 = 12;

/// The time for which a shard does not respond. The leader can serve the other shards again
/// meanwhile.
const A_WHILE: Duration = Duration::from_millis(600);

#[tokio::test]
async fn shards_that_wait_for_a_turn_are_not_served_again_and_again() {
    let service = Service::start().await;
    let queue = Arc::new(WatchedQueue::default());
    queue.silence(Some(ShardId(0)));
    let context = Context {
        store: service.store.clone(),
        queue: queue.clone(),
        cluster: Arc::new(SingleNode::new("test", SHARDS)),
        clock: service.clock.clone(),
        starter: None,
        replica: "test".into(),
    };
    let now = service.clock.now();
    let mut leader = Leader::new(context, Arc::new(Plans::default()), Random::seeded(1));
    // The first round takes over the shards. In the next one, all shards want to be compared with
    // the store.
    let round = async {
        for _ in 0..3 {
            leader.run_once(now).await.expect("served");
        }
    };
    let beside = async {
        until("the silent shard is asked", async || (queue.looks() > 0).then_some(())).await;
        live_for(A_WHILE).await;
        let looks = queue.looks();
        queue.silence(None);
        queue.due_hint().notify_one();
        looks
    };
    let ((), looks) = tokio::join!(round, beside);
    assert!(looks < 20 * usize::from(SHARDS), "the others were looked at {looks} times meanwhile");
}
