//! Deletion of an account that replicas serve.

use std::time::Duration;

use serde_json::json;
use sqlx::AssertSqlSafe;

use super::world::World;
use crate::harness::recorder::Recorder;
use crate::harness::servers::shared;
use crate::harness::wait::{until, within};

/// The maximum time until a replica notices, on a busy machine.
const NOTICED: Duration = Duration::from_secs(20);

/// Returns the members of all sorted sets of a world: its due indexes and run queues.
async fn queued(world: &World) -> Vec<String> {
    let client = redis::Client::open(shared("PUNCTUAL_TEST_REDIS")).expect("a URL");
    let mut redis = client.get_multiplexed_async_connection().await.expect("connected");
    let pattern = format!("*{}*", world.prefix);
    let keys: Vec<String> =
        redis::cmd("KEYS").arg(pattern).query_async(&mut redis).await.expect("keys");
    let mut members = Vec::new();
    for key in keys {
        let kind: String =
            redis::cmd("TYPE").arg(&key).query_async(&mut redis).await.expect("kind");
        if kind == "zset" {
            let mut range = redis::cmd("ZRANGE");
            let found: Vec<Vec<u8>> =
                range.arg(&key).arg(0).arg(-1).query_async(&mut redis).await.expect("members");
            members.extend(found.iter().map(|member| format!("{member:?}")));
        }
    }
    members
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_is_unusable_at_once_and_gone_soon() {
    let target = Recorder::start().await;
    let world = World::new(&[]).await;
    let key = world.key();
    world.run(&["account", "create", "other"]);
    let others = world.run(&["key", "create", "--account", "other"]);
    let (first, second) = tokio::join!(world.replica(&[]), world.replica(&[]));
    let stays = first.client(&others).create(&target.url("/ok"), json!({})).await;
    let apis = [first.client(&key), second.client(&key)];
    let yearly = json!({ "cronExpression": "0 0 1 1 *", "maxRetries": 2 });
    for _ in 0..3 {
        let schedule = apis[0].create(&target.url("/seq/500,200"), yearly.clone()).await;
        let job = apis[1].trigger(&schedule).await;
        apis[0].finished(&job).await;
    }
    let indexed = async |count: usize| {
        until(&format!("the due index has {count} schedules"), async || {
            (queued(&world).await.len() == count).then_some(())
        })
        .await;
    };
    indexed(4).await;

    let said = world.run(&["account", "delete", "first", "--yes"]);
    assert!(said.starts_with("first is deleted, and its "), "{said}");
    for api in &apis {
        within(NOTICED, "the key is refused", async || {
            (api.get("/v1/account").await.status == 401).then_some(())
        })
        .await;
    }
    indexed(1).await;
    let mut other_session = world.second_connection().await;
    for (table, left) in [
        ("schedules", 1),
        ("schedule_versions", 1),
        ("schedule_state", 1),
        ("runs", 0),
        ("jobs", 0),
        ("attempts", 0),
        ("api_keys", 1),
        ("accounts", 1),
        ("deleted_accounts", 1),
    ] {
        let sql = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let rows: i64 = sqlx::query_scalar(sql).fetch_one(&mut other_session).await.expect("count");
        assert_eq!(rows, left, "{table}");
    }
    let api = second.client(&others);
    let job = api.trigger(&stays).await;
    assert_eq!(api.finished(&job).await["status"], "SUCCESS");
    first.stop().await;
    second.stop().await;
}
