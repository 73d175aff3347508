//! What a replica refuses to start with: one sentence that names the setting, no password, and
//! nothing half done.

use super::world::{SHARDS, World};
use crate::harness::database::run;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urls_that_are_none_are_told_all_at_once() {
    let world = World::new(&[]).await;
    let wrong = [
        ("PUNCTUAL_STORE_URL", "mysql://u:hunter2@h/d"),
        ("PUNCTUAL_QUEUE_URL", "amqp://u:hunter2@h"),
        ("PUNCTUAL_CLUSTER_URL", "zk://u:hunter2@h"),
    ];
    let said = world.refusal(&wrong).await;
    for part in ["3 mistakes", "store.url", "queue.url", "cluster.url"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("hunter2"), "{said}");
    let said = world.refusal(&[("PUNCTUAL_QUEUE_URL", "memory:")]).await;
    assert!(said.contains("does not go with the others"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_refuses_the_user_is_told() {
    let world = World::new(&[]).await;
    let url = world.database.url();
    let wrong = url.replace("punctual:", "punctual:hunter2");
    let said = world.refusal(&[("PUNCTUAL_STORE_URL", &wrong)]).await;
    assert!(said.contains("check user and password") && said.contains("(store.url)"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    let nowhere = format!("{url}_gone");
    let said = world.refusal(&[("PUNCTUAL_STORE_URL", &nowhere)]).await;
    assert!(said.contains("no such database") && said.contains("(store.url)"), "{said}");
    let missing = world.refusal(&[("PUNCTUAL_STORE_PASSWORD_FILE", "/no/such")]).await;
    assert!(missing.contains("password file /no/such"), "{missing}");
}

/// F19.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_number_of_shards_is_refused() {
    let world = World::new(&[]).await;
    let replica = world.replica(&[]).await;
    let said = world.refusal(&[("PUNCTUAL_CLUSTER_SHARDS", "64")]).await;
    let expected = format!("set up with {SHARDS} shards, not 64: set cluster.shards to {SHARDS}");
    assert!(said.contains(&expected), "{said}");
    assert_eq!(replica.ask("/readyz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_another_version_is_refused() {
    let world = World::new(&[]).await;
    let said = world.refusal(&[("PUNCTUAL_STORE_MIGRATE", "false")]).await;
    assert!(said.contains("run `punctual migrate`"), "{said}");
    world.run(&["migrate"]);
    run(&mut world.beside().await, "UPDATE meta SET value = 9999 WHERE name = 'min_compatible'")
        .await;
    let said = world.refusal(&[]).await;
    assert!(said.contains("use a newer punctual"), "{said}");
}
