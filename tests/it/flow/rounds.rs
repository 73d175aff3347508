//! A leader whose queue responds at once, like the one in the process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use punctual::cluster::single::SingleNode;
use punctual::domain::plan::Plans;
use punctual::domain::shard::ShardId;
use punctual::queue::Queue;
use punctual::runtime::{Clock, LoopPause, Random, Worker};
use punctual::scheduler::{Leader, LeaderReplacer, SchedulerContext};
use punctual::store::{LeadershipStore, ReplicaLease};
use serde_json::json;

use super::core::WatchedQueue;
use crate::api::harness::{self, Service};
use crate::harness::wait::{live_for, until};

/// More shards than one round can serve.
const SHARDS: u16 = 12;

/// The time for which a shard does not respond. The leader can serve the other shards again
/// meanwhile.
const A_WHILE: Duration = Duration::from_millis(600);

#[tokio::test]
async fn shards_that_wait_for_a_turn_are_not_served_repeatedly() {
    let service = Service::start().await;
    let queue = Arc::new(WatchedQueue::default());
    queue.silence(Some(ShardId(0)));
    let context = context(&service, queue.clone(), SHARDS);
    let now = service.clock.now();
    let mut leader = Leader::new(context, Arc::new(Plans::default()), Random::seeded(1));
    // The first round takes over the shards. In the next one, all shards want to be compared with
    // the store.
    let round = async {
        for _ in 0..3 {
            leader.run_once(now).await.expect("served");
        }
    };
    let release = async {
        until("the silent shard is read", async || (queue.due_reads() > 0).then_some(())).await;
        live_for(A_WHILE).await;
        let looks = queue.due_reads();
        queue.silence(None);
        queue.due_hint().notify_one();
        looks
    };
    let ((), looks) = tokio::join!(round, release);
    assert!(looks < 20 * usize::from(SHARDS), "the others were looked at {looks} times meanwhile");
}

/// Without the store, its time is unknown after a while. Then no shard can be compared with it.
#[tokio::test]
async fn while_the_time_is_unknown_the_leader_pauses_between_its_rounds() {
    let (service, clock) = (Service::start().await, Clock::system());
    let context = context(&service, Arc::new(WatchedQueue::default()), SHARDS);
    let context = SchedulerContext { clock: clock.clone(), ..context };
    let mut leader = Leader::new(context, Arc::new(Plans::default()), Random::seeded(1));
    // The first round takes over the shards, which then all want to be compared.
    leader.run_once(clock.now()).await.expect("served");
    let monotonic = i64::try_from(clock.monotonic().as_micros()).expect("a short time");
    clock.sync(clock.now().as_millis() * 1_000 - monotonic, clock.moment(), Duration::ZERO);
    assert!(!clock.is_trusted(), "the last sample of the time has expired");
    let now = clock.now();
    let pause = leader.run_once(now).await.expect("served");
    assert!(matches!(pause, LoopPause::Until(at) if at > now), "{pause:?} at {now}");
}

/// While the queue that replicas share is away, no hint of another replica arrives.
#[tokio::test]
async fn without_hints_a_schedule_that_another_replica_creates_fires_within_two_seconds() {
    let service = Service::start().await;
    let queue = Arc::new(WatchedQueue::default());
    queue.is_replacement.store(true, Ordering::Relaxed);
    let context = context(&service, queue, harness::SHARDS);
    let mut leader = Leader::new(context, Arc::new(Plans::default()), Random::seeded(1));
    assert_eq!(jobs_of_schedule_created_elsewhere(&service, &mut leader).await, 1);
}

/// The queue of the leader works, that of a replica which serves the API does not.
#[tokio::test]
async fn a_schedule_of_a_replica_without_the_queue_fires_within_two_seconds() {
    let service = Service::start().await;
    let queue = Arc::new(WatchedQueue::default());
    let context = context(&service, queue, harness::SHARDS);
    let now = service.clock.now();
    let other = ReplicaLease {
        name: "other".into(),
        is_cut_off: false,
        without_cluster: false,
        without_queue: true,
        until: now.plus(Duration::from_secs(3_600)),
    };
    service.store.renew_replica(&other, now).await.expect("its lease");
    let mut replacer = LeaderReplacer::new(context.clone(), Duration::from_secs(15), true);
    replacer.run_once(now).await.expect("read");
    let mut leader = Leader::new(context, Arc::new(Plans::default()), Random::seeded(1));
    assert_eq!(jobs_of_schedule_created_elsewhere(&service, &mut leader).await, 1);
}

/// Once all replicas reach the queue, the leader relies on hints and no longer compares its whole
/// indexes again and again.
#[tokio::test]
async fn with_hints_of_all_replicas_the_index_is_not_compared_repeatedly() {
    let service = Service::start().await;
    let queue = Arc::new(WatchedQueue::default());
    let context = context(&service, queue, harness::SHARDS);
    let mut leader = Leader::new(context, Arc::new(Plans::default()), Random::seeded(1));
    assert_eq!(jobs_of_schedule_created_elsewhere(&service, &mut leader).await, 0);
}

/// Returns the dependencies of a leader of `shards` shards that has its own queue.
fn context(service: &Service, queue: Arc<WatchedQueue>, shards: u16) -> SchedulerContext {
    SchedulerContext {
        store: service.store.clone(),
        queue,
        cluster: Arc::new(SingleNode::new("test", shards)),
        clock: service.clock.clone(),
        starter: None,
        replica: "test".into(),
        others_lack_queue: Arc::default(),
    }
}

/// Lets the leader run for a while, creates a schedule whose hint it does not get, and returns the
/// number of its jobs 2 s after its first tick.
async fn jobs_of_schedule_created_elsewhere(service: &Service, leader: &mut Leader) -> u64 {
    // The clock shows 00:00:35. With hints, a page is compared every 10 s from now on.
    service.clock.advance(Duration::from_secs(5));
    for _ in 35..58 {
        leader.run_once(service.clock.now()).await.expect("served");
        service.clock.advance(Duration::from_secs(1));
    }
    // The hint goes to the queue of the service, not to that of the leader.
    let schedule =
        service.create(json!({ "cronExpression": "1 0 * * *", "timezone": "UTC" })).await;
    for _ in 58..62 {
        service.clock.advance(Duration::from_secs(1));
        leader.run_once(service.clock.now()).await.expect("served");
    }
    let path = format!("/v1/jobs?scheduleId={}", schedule["id"].as_str().expect("an id"));
    service.get(&path).await.ok()["total"].as_u64().expect("a number")
}
