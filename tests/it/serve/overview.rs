//! `punctual cluster`, and the state that replicas report.

use std::process::Stdio;

use serde_json::{Value, json};

use super::world::{SHARDS, World};
use crate::harness::database::run;
use crate::harness::wait::until;

/// Runs the command with JSON output. Returns its exit status, the JSON, and its error output.
fn cluster_report(world: &World, options: &[&str]) -> (Option<i32>, Value, String) {
    let mut command = world.command(&["cluster", "--json"]);
    let command = command.args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().expect("it runs");
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.code(), json, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_shards_leaders_and_epochs_are_shown() {
    let world = World::new(&[]).await;
    let (first, second) = tokio::join!(world.replica(&[]), world.replica(&[]));
    let api = world.replica(&[("PUNCTUAL_ROLES", "api")]).await;
    let json = until("all shards have leaders and three members are listed", async || {
        let (status, json, _) = cluster_report(&world, &[]);
        if status != Some(0) {
            return None;
        }
        let shards = json["shards"].as_array()?;
        let led = shards.iter().filter(|shard| shard["held"] == true);
        let led = led.filter(|shard| shard["epoch"].as_i64() > Some(0)).count();
        (led == usize::from(SHARDS) && json["members"].as_array()?.len() == 3).then_some(json)
    })
    .await;
    let servers: Vec<_> = ["store.url", "queue.url", "cluster.url"]
        .map(|setting| json!({ "setting": setting, "status": "ok" }))
        .into();
    assert_eq!(json["servers"], Value::from(servers));
    assert!(json["installation"].is_string(), "{json}");
    let idle = json!({ "jobs": 0, "oldestJobMs": 0, "alerts": 0, "oldestAlertMs": 0 });
    assert_eq!(json["waiting"], idle);
    for shard in json["shards"].as_array().expect("shards") {
        assert_eq!((&shard["tickLagMs"], &shard["jobLagMs"]), (&json!(0), &json!(0)), "{json}");
    }

    // Each replica reports the same about itself.
    until("replicas and members agree", async || {
        let (_, json, _) = cluster_report(&world, &[]);
        let mut shards = Vec::new();
        for replica in [&first, &second, &api] {
            let own = replica.ask("/readyz").await.body;
            let mut members = json["members"].as_array()?.iter();
            let member = members.find(|member| member["name"] == own["replica"])?;
            if member["shards"] != own["shards"] {
                return None;
            }
            shards.extend(replica.shards().await);
        }
        shards.sort_unstable();
        shards.into_iter().eq(0..u64::from(SHARDS)).then_some(())
    })
    .await;
    assert!(api.shards().await.is_empty());

    let table = world.run(&["cluster"]);
    for part in ["SERVER", "MEMBER", "SHARD", "TICK LAG", "store.url", "0.000 s"] {
        assert!(table.contains(part), "{table}");
    }
    let rows = table.lines().filter(|line| line.contains("0.000 s")).count();
    assert_eq!(rows, usize::from(SHARDS) + ["jobs", "alerts"].len(), "{table}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_without_a_worker_is_late() {
    let world = World::new(&[]).await;
    // This sets up the store.
    world.replica(&[]).await.stop().await;
    run(
        &mut world.second_connection().await,
        "INSERT INTO schedule_state (shard, schedule_id, account_id, version_id, host_key,
                                     max_attempts, overlap_policy, next_tick)
         SELECT 3, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 1, 1, 'allow',
                (extract(epoch FROM now()) * 1000)::bigint - 90000;
         INSERT INTO runs (id, account_id, schedule_id, version_id, shard, status, trigger,
                           max_attempts, created_at, updated_at, wake_at)
         SELECT (lpad(to_hex(t.ms), 12, '0') || repeat('0', 20))::uuid, gen_random_uuid(),
                gen_random_uuid(), gen_random_uuid(), 5, 0, 1, 1, t.ms, t.ms, t.ms - 40000
         FROM (SELECT (extract(epoch FROM now()) * 1000)::bigint AS ms) AS t",
    )
    .await;
    let (status, json, _) = cluster_report(&world, &[]);
    assert_eq!(status, Some(0), "{json}");
    assert_eq!(json["members"], json!([]));
    let lag = |shard: usize, name: &str| json["shards"][shard][name].as_u64().expect("a number");
    assert!((90_000..150_000).contains(&lag(3, "tickLagMs")), "{json}");
    assert!((40_000..100_000).contains(&lag(5, "jobLagMs")), "{json}");
    assert_eq!((lag(3, "jobLagMs"), lag(5, "tickLagMs"), lag(0, "tickLagMs")), (0, 0, 0));
    // The last leader of the shard is still shown.
    assert_eq!(json["shards"][0]["held"], false);
    assert!(json["shards"][0]["leader"].is_string(), "{json}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unavailable_servers_are_named() {
    let world = World::new(&[]).await;
    let replica = world.replica(&[]).await;
    for (setting, option, url, left) in [
        ("store.url", "--store-url", "postgres://u:hunter2@127.0.0.1:1/d", "members"),
        ("queue.url", "--queue-url", "redis://:hunter2@127.0.0.1:1", "shards"),
        ("cluster.url", "--cluster-url", "etcd://u:hunter2@127.0.0.1:1", "shards"),
    ] {
        let (status, json, said) = cluster_report(&world, &[option, url]);
        assert_eq!(status, Some(1), "{json}");
        assert!(said.contains(setting), "{said}");
        assert!(!format!("{json}{said}").contains("hunter2"), "{json} {said}");
        for server in json["servers"].as_array().expect("servers") {
            let away = server["setting"] == setting;
            assert_eq!(server["status"], if away { "away" } else { "ok" }, "{json}");
            assert_eq!(server["error"].is_string(), away, "{json}");
        }
        assert!(!json[left].as_array().expect("a list").is_empty(), "{json}");
        let members = json["members"].as_array().expect("members");
        assert_eq!(members.len(), 1, "{json}");
        assert_eq!(members[0]["name"], replica.ask("/readyz").await.body["replica"]);
    }
}

/// Each replica writes its mode, whatever its roles. One of a release before migration 15 writes
/// less.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_replica_has_a_mode() {
    let world = World::new(&[]).await;
    let _replicas = tokio::join!(
        world.replica(&[("PUNCTUAL_ROLES", "api")]),
        world.replica(&[("PUNCTUAL_ROLES", "scheduler")]),
        world.replica(&[("PUNCTUAL_ROLES", "executor")]),
    );
    run(
        &mut world.second_connection().await,
        "INSERT INTO replicas (name, cut_off, alive_until)
         SELECT '~older', true, (extract(epoch FROM now()) * 1000)::bigint + 90000",
    )
    .await;
    until("the report shows the mode of each member", async || {
        let (_, json, _) = cluster_report(&world, &[]);
        let members = json["members"].as_array()?.iter();
        let modes: Vec<_> = members.map(|member| member["withoutServers"].clone()).collect();
        (modes == [json!([]), json!([]), json!([]), json!(["cluster"])]).then_some(())
    })
    .await;
}
