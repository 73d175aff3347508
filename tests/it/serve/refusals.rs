//! Configurations that a replica refuses to start with. The error is one sentence that names the
//! setting and contains no password, and nothing is half done.

use super::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn urls_that_are_none_are_reported_all_at_once() {
    let world = World::new(&[]).await;
    let wrong = [
        ("PUNCTUAL_STORE_URL", "mysql://u:hunter2@h/d"),
        ("PUNCTUAL_QUEUE_URL", "amqp://u:hunter2@h"),
        ("PUNCTUAL_CLUSTER_URL", "zk://u:hunter2@h"),
    ];
    let said = world.refusal(2, &wrong).await;
    for part in ["3 mistakes", "store.url", "queue.url", "cluster.url"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!said.contains("hunter2"), "{said}");
    for unusable in ["postgres://u:hunter2@ho st/d", "postgres://u:hunter2@h/d?sslmode=maybe"] {
        let said = world.refusal(2, &[("PUNCTUAL_STORE_URL", unusable)]).await;
        assert!(said.contains("store.url") && !said.contains("hunter2"), "{said}");
    }
    let said = world.refusal(2, &[("PUNCTUAL_QUEUE_URL", "memory:")]).await;
    assert!(said.contains("does not fit the other two settings"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_cannot_decrypt_the_stored_secrets_are_refused() {
    let world = World::new(&[]).await;
    let said = world.refusal(1, &[("PUNCTUAL_SECRETS_KEYS", "")]).await;
    assert!(said.contains("set secrets.keys_file or secrets.keys"), "{said}");
    world.run(&["migrate"]);
    let other = world.run(&["secrets", "generate"]);
    let said = world.refusal(1, &[("PUNCTUAL_SECRETS_KEYS", &other)]).await;
    assert!(said.contains("which is not configured: add it to secrets.keys"), "{said}");
    let (_, bytes) = other.split_once(':').expect("an id");
    let said = world.refusal(1, &[("PUNCTUAL_SECRETS_KEYS", &format!("test:{bytes}"))]).await;
    assert!(said.contains("another key of the id \"test\""), "{said}");
    assert!(!said.contains(bytes), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_history_than_the_server_has_locks_for_is_refused() {
    let world = World::new(&[]).await;
    let connections = ("PUNCTUAL_STORE_API_CONNECTIONS", "16");
    let said = world.refusal(1, &[("PUNCTUAL_HISTORY_DAYS", "3650"), connections]).await;
    for part in ["keeps history for 3650 days", "max_locks_per_transaction", "history.days"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&file, "[plans.long]\nhistory_days = 3650\n").expect("written");
    let file = ("PUNCTUAL_CONFIG", file.path().to_str().expect("text"));
    let said = world.refusal(1, &[file, connections]).await;
    assert!(said.contains("keeps history for 3650 days"), "a plan's: {said}");
    world.replica(&[("PUNCTUAL_HISTORY_DAYS", "365"), connections]).await;
}
