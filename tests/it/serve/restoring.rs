//! A dump of a cluster's database, restored into an empty one as docs/operations.md describes.

use std::process::Command;

use serde_json::{Value, json};

use super::world::World;
use crate::harness::client::ApiClient;
use crate::harness::database::{Database, run};
use crate::harness::process::run_to_end;
use crate::harness::recorder::Recorder;

/// Runs a program of PostgreSQL to its end.
fn postgres(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("it is installed");
    assert!(output.status.success(), "{program}: {output:?}");
}

/// Returns the ids of all jobs.
async fn jobs(api: &ApiClient) -> Vec<Value> {
    api.jobs("").await.iter().map(|job| job["id"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_dump_continues_and_runs_nothing_twice() {
    const SCHEDULES: usize = 12;
    let target = Recorder::start().await;
    let mut world = World::new(&[]).await;
    let key = world.key();
    let replica = world.replica(&[]).await;
    let api = replica.client(&key);
    // Headers are encrypted in the store, and so in the dump.
    let yearly = json!({ "catchUpPolicy": "all", "headers": r#"{"x-token": "of-the-target"}"# });
    let mut schedules = Vec::new();
    for _ in 0..SCHEDULES {
        schedules.push(api.create(&target.url("/ok"), yearly.clone()).await);
    }
    let kept = api.trigger(&schedules[0]).await;
    api.finished(&kept).await;
    let dump = world.folder.path().join("dump.sql");
    let (dump, url) = (dump.to_str().expect("text"), world.database.url());
    postgres("pg_dump", &["--dbname", &url, "--file", dump]);
    let lost = api.trigger(&schedules[0]).await;
    api.finished(&lost).await;
    let (status, said) = run_to_end(world.command(&["restored"])).await;
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("stop its replicas first"), "{said}");
    replica.stop().await;

    let empty = Database::empty().await;
    let strictly = ["--quiet", "--set", "ON_ERROR_STOP=1", "--single-transaction"];
    postgres("psql", &[&strictly[..], &["--dbname", &empty.url(), "--file", dump]].concat());
    // This makes all schedules due since the backup.
    let ago =
        "UPDATE schedule_state SET next_tick = extract(epoch FROM now())::bigint * 1000 - 600000";
    run(&mut empty.second_connection().await, ago).await;
    world.set("PUNCTUAL_STORE_URL", empty.url());
    let said = world.run(&["restored"]);
    assert!(said.contains(&format!("of {SCHEDULES} schedules were due")), "{said}");
    assert!(world.run(&["restored"]).starts_with("0 ticks of 0 schedules"));
    let log = world.run(&["audit-log"]);
    let entry = log.lines().find(|line| line.contains("store.restored")).expect("it is entered");
    assert!(entry.contains("operator:") && entry.contains("host:"), "{log}");

    let replica = world.replica(&[]).await;
    let api = replica.client(&key);
    assert_eq!(jobs(&api).await, [json!(kept)], "as when the dump was made");
    for schedule in &schedules {
        let page = api.get(&format!("/v1/schedules/{schedule}/skips")).await.data().clone();
        assert_eq!(page["skips"][0]["reason"], "restored", "{page}");
        assert_eq!(page["skips"].as_array().map(Vec::len), Some(1), "{page}");
    }
    let new = api.trigger(&schedules[0]).await;
    assert_eq!(api.finished(&new).await["status"], "SUCCESS");
    let [sent] = &target.hits_of(&new)[..] else { panic!("one request") };
    assert_eq!(sent.header("x-token"), "of-the-target", "the keys fit the restored store");
    assert_eq!(jobs(&api).await.len(), 2, "no tick of before was caught up");
    replica.stop().await;
}
