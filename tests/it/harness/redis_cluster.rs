//! A Redis Cluster for one test, which the test can kill, pause and reshard.

use std::process::Command;

use super::servers::{PASSWORD, RedisServer, SLOTS};

/// A Redis Cluster whose nodes own a part of the slots each, without replicas. The other nodes
/// answer while one is down, as in any cluster that has not detected the failure yet.
pub struct RedisCluster {
    pub nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts a cluster of three nodes.
    pub async fn start() -> Self {
        let mut nodes = Vec::new();
        for _ in 0..3 {
            let settings = ["--cluster-require-full-coverage", "no"];
            nodes.push(RedisServer::start_node(&settings).await);
        }
        let cluster = Self { nodes };
        let addresses = cluster.nodes.iter().map(address).collect::<Vec<_>>();
        manage("create", &addresses).await;
        for node in &cluster.nodes {
            node.has_joined().await;
        }
        cluster
    }

    /// Returns the URL of the cluster.
    pub fn url(&self) -> String {
        let nodes = self.nodes.iter().map(address).collect::<Vec<_>>();
        format!("redis+cluster://:{PASSWORD}@{}", nodes.join(","))
    }

    /// Returns the node that owns the slot of a key. The other nodes redirect requests for the key
    /// to it.
    pub async fn owner(&self, key: &str) -> usize {
        let slot = self.slot(key).await;
        let mut slots = redis::cmd("CLUSTER");
        let ranges: Vec<(u32, u32, Vec<redis::Value>)> =
            self.nodes[0].run(slots.arg("SLOTS")).await;
        let range = ranges.into_iter().find(|(from, to, _)| (*from..=*to).contains(&slot));
        let (.., node) = range.expect("each slot has an owner");
        let port: u16 = redis::from_redis_value(node[1].clone()).expect("a port");
        self.nodes.iter().position(|node| node.port == port).expect("one of them")
    }

    async fn slot(&self, key: &str) -> u32 {
        self.nodes[0].run(redis::cmd("CLUSTER").arg("KEYSLOT").arg(key)).await
    }

    async fn id(&self, node: usize) -> String {
        self.nodes[node].run(redis::cmd("CLUSTER").arg("MYID")).await
    }

    /// Begins to move the slot of a key to another node, without moving any key.
    pub async fn begin_to_move(&self, key: &str) {
        let (slot, from) = (self.slot(key).await, self.owner(key).await);
        let to = (from + 1) % self.nodes.len();
        for (node, state, other) in [(to, "IMPORTING", from), (from, "MIGRATING", to)] {
            let mut set = redis::cmd("CLUSTER");
            set.arg("SETSLOT").arg(slot).arg(state).arg(self.id(other).await);
            let _: () = self.nodes[node].run(&set).await;
        }
    }

    /// Moves all slots of one node and their keys to another, while the cluster is in use.
    pub async fn move_slots(&self, from: usize, to: usize) {
        let from = ["--cluster-from".to_owned(), self.id(from).await];
        let target = ["--cluster-to".to_owned(), self.id(to).await];
        let all = ["--cluster-slots".to_owned(), SLOTS.to_string()];
        let arguments = [vec![address(&self.nodes[to])], [from, target, all].concat()].concat();
        manage("reshard", &arguments).await;
    }
}

async fn manage(task: &str, arguments: &[String]) {
    let mut command = Command::new("redis-cli");
    command.args(["--no-auth-warning", "-a", PASSWORD, "--cluster", task]).args(arguments);
    command.arg("--cluster-yes");
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic");
    let output = output.expect("redis-cli is installed with the server");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn address(node: &RedisServer) -> String {
    format!("127.0.0.1:{}", node.port)
}
