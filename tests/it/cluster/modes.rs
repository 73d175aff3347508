//! A replica logs one line when it starts to work without etcd or Redis, and one line when that
//! server is back. `punctual cluster`, `/readyz` and a metric show the mode in between.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::replica::Replica;
use super::world::{USUAL, World, WorldConfig};
use crate::harness::wait::within;

const ETCD_AWAY: &str =
    "etcd unreachable, keeping the led shards; the store's epochs decide (cluster.url)";
const ETCD_BACK: &str = "etcd reachable, etcd assigns the shard leaders";
const QUEUE_AWAY: &str = "queue unreachable, firing from the store (queue.url)";
const QUEUE_BACK: &str = "queue reachable again, rebuilding due indexes";

/// The lease in etcd lasts 10 s, so that a busy machine does not renew it too late. The loss of a
/// lease would change the mode, too.
const CONFIG: WorldConfig = WorldConfig {
    etcd_members: 1,
    schedules: 12,
    users: 0,
    settings: &[("PUNCTUAL_CLUSTER_LEASE_SECONDS", "10")],
    ..USUAL
};

/// The maximum time until a change is logged. A lease in etcd ends after 10 s, and a new one is
/// granted within 15 s of etcd's return. Redis must answer for 3 s first. The rest is for busy
/// machines.
const LOG_LIMIT: Duration = Duration::from_secs(40);

/// Returns how often a replica has logged each message.
fn log_counts(replica: &Replica) -> [usize; 4] {
    let log = replica.process().log();
    [ETCD_AWAY, ETCD_BACK, QUEUE_AWAY, QUEUE_BACK]
        .map(|message| log.iter().filter(|line| line["message"] == message).count())
}

impl World {
    /// Waits until every replica has logged each message as often as `counts` says.
    async fn have_logged(&self, what: &str, counts: [usize; 4]) {
        within(LOG_LIMIT, &format!("the logs show that {what}"), async || {
            self.replicas.iter().all(|replica| log_counts(replica) == counts).then_some(())
        })
        .await;
    }

    /// Waits until `punctual cluster`, `/readyz` and the metric show that all replicas work without
    /// these servers.
    async fn shows_all_without(&self, servers: Value) {
        let settings = self.stores.settings(&self.replicas[0].links, "command");
        within(LOG_LIMIT, &format!("all replicas work without {servers}"), async || {
            let mut command = self.installation.command(&["cluster", "--json"]);
            command.envs(settings.iter().map(|(name, value)| (name, value)));
            let output = command.stdout(Stdio::piped()).output().expect("it runs");
            let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let members = shown["members"].as_array().expect("members");
            let is_so = members.iter().all(|member| member["withoutServers"] == servers);
            (is_so && members.len() == self.replicas.len()).then_some(())?;
            for replica in &self.replicas {
                let process = replica.process();
                (process.without_servers().await? == servers).then_some(())?;
                for server in ["queue", "cluster"] {
                    let is_absent = servers.as_array().expect("names").contains(&json!(server));
                    let metric = format!("punctual_degraded{{server=\"{server}\"}}");
                    let state = if is_absent { "unavailable" } else { "ok" };
                    let is_reported = process.counter(&metric).await == u64::from(is_absent)
                        && process.server_state(server).await? == state;
                    is_reported.then_some(())?;
                }
            }
            Some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_of_mode_is_reported_once() {
    let mut world = World::start(CONFIG).await;
    world.have_logged("all is well", [0, 1, 0, 0]).await;
    world.shows_all_without(json!([])).await;
    world.stores.etcd.as_mut().expect("the test's own etcd").kill(0);
    world.have_logged("etcd is unreachable", [1, 1, 0, 0]).await;
    world.shows_all_without(json!(["cluster"])).await;
    let etcd = world.stores.etcd.as_mut().expect("the test's own etcd");
    etcd.restart(0);
    etcd.ready().await;
    world.have_logged("etcd is reachable again", [1, 2, 0, 0]).await;
    world.stores.redis.kill();
    world.have_logged("the queue is unreachable", [1, 2, 1, 0]).await;
    world.shows_all_without(json!(["queue"])).await;
    world.stores.redis.restart().await;
    world.have_logged("the queue is reachable again", [1, 2, 1, 1]).await;
    world.shows_all_without(json!([])).await;
    // Ticks, rescues and renewals continue and log no further message.
    world.minutes(2.0).await;
    world.have_logged("nothing has changed", [1, 2, 1, 1]).await;
}
