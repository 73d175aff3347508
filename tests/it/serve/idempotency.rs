//! Idempotency keys apply across all replicas and restarts.

use serde_json::Value;

use super::world::World;
use crate::harness::client::schedule;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_replica_gives_the_first_answer_again() {
    let world = World::new(&[]).await;
    let key = world.key();
    let (first, second) = tokio::join!(world.replica(&[]), world.replica(&[]));
    let new = schedule("https://example.com/hook", Value::Null);
    let make = async |api: crate::harness::client::ApiClient| {
        let reply = api.once("k").post("/v1/schedules", &new).await;
        (reply.status, reply.body)
    };
    let made = make(first.client(&key)).await;
    assert_eq!(made.0, 201, "{}", made.1);
    assert_eq!(make(second.client(&key)).await, made);
    first.stop().await;
    assert_eq!(make(second.client(&key)).await, made);
    let third = world.replica(&[]).await;
    assert_eq!(make(third.client(&key)).await, made, "one that was started afterwards");
    let all = third.client(&key).get("/v1/schedules").await;
    assert_eq!(all.body["pagination"]["total"], 1);
}

/// Of concurrent calls with one key to all replicas, one takes effect. The others get its response
/// or are asked to wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_calls_at_once_one_takes_effect() {
    let world = World::new(&[]).await;
    let key = world.key();
    let (first, second) = tokio::join!(world.replica(&[]), world.replica(&[]));
    let new = schedule("https://example.com/hook", Value::Null);
    for round in 1..=5_u64 {
        let calls = (0..8).map(|number| {
            let replica = if number % 2 == 0 { &first } else { &second };
            let (api, new) = (replica.client(&key).once(&round.to_string()), &new);
            async move { api.post("/v1/schedules", new).await }
        });
        let replies = futures_util::future::join_all(calls).await;
        let mut made: Vec<_> = replies.iter().filter(|reply| reply.status == 201).collect();
        made.dedup_by(|a, b| a.body == b.body);
        assert_eq!(made.len(), 1, "{replies:?}");
        for refused in replies.iter().filter(|reply| reply.status != 201) {
            assert_eq!(refused.body["error"]["code"], "IDEMPOTENCY_IN_PROGRESS");
        }
        let all = second.client(&key).get("/v1/schedules").await;
        assert_eq!(all.body["pagination"]["total"], round);
    }
}
