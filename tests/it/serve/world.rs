//! A cluster for one test, and its replicas.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use punctual::runtime::Random;
use serde_json::Value;
use sqlx::PgConnection;
use tempfile::TempDir;

use crate::harness::client::{ApiClient, Reply};
use crate::harness::database::Database;
use crate::harness::process::{binary, complete_lines, run_to_end};
use crate::harness::servers::shared;
use crate::harness::wait::{until, within};

/// The timeout of a start, on a machine that is busy with other tests.
const START: Duration = Duration::from_secs(30);
/// The default number of shards of a cluster under test.
pub const SHARDS: u16 = 8;

/// A database, a prefix in Redis and etcd, and a folder.
pub struct World {
    pub database: Database,
    pub folder: TempDir,
    pub prefix: String,
    settings: Vec<(&'static str, String)>,
}

impl World {
    /// Creates a world with an empty database. `settings` are variables in addition to the default
    /// ones.
    pub async fn new(settings: &[(&'static str, &str)]) -> Self {
        let prefix = format!("test-{:032x}", Random::system().bits());
        let database = Database::empty().await;
        let usual = [
            ("PUNCTUAL_STORE_URL", database.url()),
            ("PUNCTUAL_QUEUE_URL", shared("PUNCTUAL_TEST_REDIS")),
            ("PUNCTUAL_QUEUE_PREFIX", prefix.clone()),
            ("PUNCTUAL_CLUSTER_URL", format!("{}/{prefix}", shared("PUNCTUAL_TEST_ETCD"))),
            ("PUNCTUAL_CLUSTER_SHARDS", SHARDS.to_string()),
            ("PUNCTUAL_CLUSTER_LEASE_SECONDS", "2".to_owned()),
        ];
        let given = settings.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let settings = usual.into_iter().chain(given).collect();
        let folder = tempfile::tempdir().expect("a folder");
        Self { database, folder, prefix, settings }
    }

    /// Sets a variable for processes that start later.
    pub fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.settings.push((name, value.into()));
    }

    /// Returns a command of the binary with the settings of this cluster.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = binary(&self.folder.path().join("data"));
        command.args(arguments);
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command that must succeed, and returns its output.
    pub fn run(&self, arguments: &[&str]) -> String {
        let mut command = self.command(arguments);
        let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    /// Creates an account and a key. Returns the key.
    pub fn key(&self) -> String {
        self.run(&["account", "create", "first"]);
        self.run(&["key", "create", "--account", "first"])
    }

    /// Runs `serve` with these settings in addition to those of the cluster. It must fail with this
    /// status. Returns its error output.
    pub async fn refusal(&self, expected: i32, settings: &[(&str, &str)]) -> String {
        let mut command = self.command(&["serve"]);
        command.envs(settings.iter().copied());
        let (status, said) = run_to_end(command).await;
        assert_eq!(status, Some(expected), "{said}");
        assert!(said.contains("error: "), "{said}");
        said
    }

    /// Opens a second connection to the database.
    pub async fn second_connection(&self) -> PgConnection {
        self.database.second_connection().await
    }

    /// Starts a replica with these settings in addition to those of the cluster, and waits until
    /// its operations listener responds.
    pub async fn start(&self, settings: &[(&str, &str)]) -> Replica {
        let number = Random::system().bits();
        let log = self.folder.path().join(format!("log-{number:032x}"));
        let operations = crate::harness::servers::free_port();
        let mut command = self.command(&["serve"]);
        command.env("PUNCTUAL_OPS_LISTEN", format!("127.0.0.1:{operations}"));
        command.envs(settings.iter().copied());
        let child = command.stderr(File::create(&log).expect("a log")).spawn().expect("it runs");
        let operations = ApiClient::new(([127, 0, 0, 1], operations).into(), "");
        let mut replica = Replica { child, log, operations };
        within(START, "the replica is alive", async || {
            replica.assert_alive();
            let reply = replica.operations.call("GET", "/healthz", None).await.ok()?;
            (reply.status == 200).then_some(())
        })
        .await;
        replica
    }

    /// Starts a replica and waits until it is ready.
    pub async fn replica(&self, settings: &[(&str, &str)]) -> Replica {
        let mut replica = self.start(settings).await;
        replica.ready().await;
        replica
    }
}

/// A running replica. It is killed when it is dropped.
pub struct Replica {
    child: Child,
    log: std::path::PathBuf,
    operations: ApiClient,
}

impl Drop for Replica {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Replica {
    fn assert_alive(&mut self) {
        if let Some(status) = self.child.try_wait().expect("a child") {
            panic!("it ended with {status}: {}", self.read_log());
        }
    }

    /// Returns the log. A thread of its own writes it, so the last line may be incomplete, and
    /// lines may still be missing when a response arrives.
    pub fn read_log(&self) -> String {
        let bytes = fs::read(&self.log).expect("a log");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until the log contains a text.
    pub async fn wait_for_log(&self, text: &str) {
        let what = format!("the replica logs {text:?}");
        until(&what, async || self.read_log().contains(text).then_some(())).await;
    }

    /// Returns a response of the operations listener.
    pub async fn ask(&self, path: &str) -> Reply {
        self.operations.get(path).await
    }

    /// Returns the address of the operations listener.
    pub fn operations(&self) -> SocketAddr {
        self.operations.address()
    }

    /// Waits until the replica is ready.
    pub async fn ready(&mut self) {
        within(START, "the replica is ready", async || {
            self.assert_alive();
            (self.ask("/readyz").await.status == 200).then_some(())
        })
        .await;
        // The log is written by a thread of its own, so this line can be later than the response.
        until("the replica logs its addresses", async || self.started()).await;
    }

    /// Returns the log line with the addresses of the listeners.
    fn started(&self) -> Option<Value> {
        let said = self.read_log();
        let mut lines =
            complete_lines(&said).filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["message"] == "serving" || line["message"] == "working")
    }

    /// Waits until the replica is alive, not ready, and waits for these servers.
    pub async fn waits_for(&mut self, servers: &Value) {
        let what = format!("the replica waits for {servers}");
        let mut last = Value::Null;
        // On a busy machine, the rest of the start takes its time.
        within(START, &what, async || {
            self.assert_alive();
            let reply = self.ask("/readyz").await;
            assert_ne!(reply.status, 200, "ready too soon: {}", self.read_log());
            if reply.body != last {
                println!("{}", reply.text);
                last = reply.body.clone();
            }
            (reply.body["waitingFor"] == *servers).then_some(())
        })
        .await;
        assert_eq!(self.ask("/healthz").await.status, 200);
    }

    /// Returns an API client of the replica.
    pub fn client(&self, key: &str) -> ApiClient {
        let line = self.started().expect("it serves");
        let public: SocketAddr =
            line["public"].as_str().expect("text").parse().expect("an address");
        ApiClient::new(public, key)
    }

    /// Returns the shards that the replica reports to lead.
    pub async fn shards(&self) -> Vec<u64> {
        let reply = self.ask("/readyz").await;
        let shards = reply.body["shards"].as_array().expect("shards");
        shards.iter().filter_map(Value::as_u64).collect()
    }

    /// Asks the replica to stop and waits for its end.
    pub async fn stop(self) {
        self.tell_to_stop();
        self.ends(0).await;
    }

    /// Like `stop`. Asserts that the log, which is complete after the end, has no error.
    pub async fn stop_without_errors(mut self) {
        self.tell_to_stop();
        self.wait_for_end(0).await;
        let said = self.read_log();
        assert!(!said.contains("\"level\":\"ERROR\""), "{said}");
    }

    /// Asks the replica to stop.
    pub fn tell_to_stop(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill runs").success());
    }

    /// Waits until the replica has ended with this status.
    pub async fn ends(mut self, expected: i32) {
        self.wait_for_end(expected).await;
    }

    async fn wait_for_end(&mut self, expected: i32) {
        let child = &mut self.child;
        let status =
            within(START, "the replica ends", async || child.try_wait().expect("a child")).await;
        assert_eq!(status.code(), Some(expected), "{}", self.read_log());
    }
}
