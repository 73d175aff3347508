//! Runs the binary in the way an operator runs it.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::client::{ApiClient, Reply};
use super::wait::{until, within};

/// The timeout of a start, on a machine that is busy with other tests.
const START: Duration = Duration::from_secs(30);

/// The default settings of every server under test.
const USUAL: &[(&str, &str)] = &[
    ("PUNCTUAL_HTTP_LISTEN", "127.0.0.1:0"),
    ("PUNCTUAL_OPS_LISTEN", "127.0.0.1:0"),
    ("PUNCTUAL_OUTBOUND_ALLOW", "127.0.0.0/8"),
    ("PUNCTUAL_RATE_PER_MINUTE", "0"),
    ("PUNCTUAL_RATE_PER_HOUR", "0"),
    ("PUNCTUAL_RETRY_BASE_MS", "20"),
    ("PUNCTUAL_RETRY_CAP_MS", "200"),
    ("PUNCTUAL_EXECUTOR_CLAIM_SECONDS", "5"),
    ("PUNCTUAL_LOG_FORMAT", "json"),
    ("PUNCTUAL_SECRETS_KEYS", "test:dGVzdHMgdGVzdHMgdGVzdHMgdGVzdHMgdGVzdHMgISE="),
];

/// A folder with a store, an account and a key. Servers run on it one after the other.
pub struct Installation {
    pub folder: TempDir,
    pub key: String,
    settings: Vec<(&'static str, String)>,
    /// A program that starts the server and is replaced by it.
    starter: Vec<String>,
    starts: usize,
}

impl Installation {
    /// Creates an installation. `settings` are environment variables in addition to the default
    /// ones.
    pub fn new(settings: &[(&'static str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let given = settings.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let mut new = Self {
            folder,
            key: String::new(),
            settings: given.collect(),
            starter: Vec::new(),
            starts: 0,
        };
        new.run(&["account", "create", "first"]);
        new.key = new.run(&["key", "create", "--account", "first"]);
        new
    }

    /// Returns the data folder.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Returns the path of the SQLite database.
    pub fn file(&self) -> PathBuf {
        self.data_dir().join("punctual.db")
    }

    /// Returns a command of the binary with the settings of this installation.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = binary(&self.data_dir());
        command.args(arguments);
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts all further servers through a program. It gets the command as its last arguments and
    /// replaces itself with it.
    pub fn serve_by(&mut self, starter: &[&str]) {
        self.starter = starter.iter().map(|part| (*part).to_owned()).collect();
    }

    fn server_command(&self, further: &[(&str, String)]) -> Command {
        let mut serve = self.command(&["serve"]);
        serve.envs(further.iter().map(|(name, value)| (name, value)));
        let [program, arguments @ ..] = &self.starter[..] else { return serve };
        let mut starter = Command::new(program);
        starter.args(arguments).arg(serve.get_program()).args(serve.get_args());
        starter.envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
        starter.stdin(Stdio::null()).stdout(Stdio::null());
        starter
    }

    /// Runs a command that must succeed, and returns its output.
    pub fn run(&self, arguments: &[&str]) -> String {
        let mut command = self.command(arguments);
        let output = command.stdout(Stdio::piped()).output().expect("it runs");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    /// Starts a server and waits until it is ready.
    pub async fn serve(&mut self) -> Server {
        let mut server = self.launch(&[]);
        server.ready().await;
        server
    }

    /// Starts a server with additional variables, without waiting for it.
    pub fn launch(&mut self, further: &[(&str, String)]) -> Server {
        self.starts += 1;
        let log = self.folder.path().join(format!("log-{}", self.starts));
        let mut command = self.server_command(further);
        let child = command.stderr(File::create(&log).expect("a log")).spawn();
        Server { child: child.expect("it runs"), log, public: None, operations: None }
    }

    /// Returns an API client of a server.
    pub fn client(&self, server: &Server) -> ApiClient {
        ApiClient::new(server.public.expect("it serves"), &self.key)
    }
}

/// Returns a command of the binary with the default settings and a data folder.
pub fn binary(data_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
    command.env_clear().envs(USUAL.iter().copied()).env("PUNCTUAL_DATA_DIR", data_dir);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Runs a command to its end. Returns its exit status and its error output.
///
/// # Panics
/// If it does not end in time.
pub async fn run_to_end(mut command: Command) -> (Option<i32>, String) {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let ended = tokio::time::timeout(START, async {
        while child.try_wait().expect("a child").is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    if ended.await.is_err() {
        let _ = child.kill();
    }
    let Output { status, stderr, .. } = child.wait_with_output().expect("a child");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

/// A running server. It is killed when it is dropped.
pub struct Server {
    child: Child,
    log: PathBuf,
    public: Option<SocketAddr>,
    operations: Option<SocketAddr>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the lines of a log. A thread of the server writes it, so the last line may be
/// incomplete; such a line is left out.
pub fn complete_lines(log: &str) -> impl Iterator<Item = &str> {
    log.split_inclusive('\n').filter(|line| line.ends_with('\n'))
}

impl Server {
    /// Returns the lines that the server has logged. An incomplete last line is left out.
    pub fn log(&self) -> Vec<Value> {
        let bytes = fs::read(&self.log).expect("a log");
        let text = String::from_utf8_lossy(&bytes);
        complete_lines(&text).filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits until the server is ready.
    pub async fn ready(&mut self) {
        let (public, operations) =
            within(START, "the server logs its addresses", async || self.addresses()).await;
        (self.public, self.operations) = (Some(public), Some(operations));
        until("the server is ready", async || self.is_ready().await.then_some(())).await;
    }

    /// Returns `true` if the server reports that it is ready.
    pub async fn is_ready(&self) -> bool {
        self.operations("/readyz").await == Some(200)
    }

    fn addresses(&mut self) -> Option<(SocketAddr, SocketAddr)> {
        if let Some(status) = self.child.try_wait().expect("a child") {
            panic!("it ended with {status}: {}", fs::read_to_string(&self.log).expect("a log"));
        }
        let line = self.log().into_iter().find(|line| line["message"] == "serving")?;
        let address = |name: &str| line[name].as_str()?.parse().ok();
        Some((address("public")?, address("operations")?))
    }

    /// Returns the address of the API, once the server is ready.
    pub fn public(&self) -> Option<SocketAddr> {
        self.public
    }

    /// Returns the shards that the server reports to lead, or `None` without a response.
    pub async fn shards(&self) -> Option<Vec<i32>> {
        let reply = self.get("/readyz").await?;
        let shards = reply.body["shards"].as_array()?;
        shards.iter().map(|shard| i32::try_from(shard.as_i64()?).ok()).collect()
    }

    /// Returns the state of a server that replicas share, from `/readyz`, or `None` without a
    /// response.
    pub async fn server_state(&self, server: &str) -> Option<String> {
        self.get("/readyz").await?.body[server].as_str().map(str::to_owned)
    }

    /// Returns the servers that the server reports to work without, or `None` without a response.
    pub async fn without_servers(&self) -> Option<Value> {
        Some(self.get("/readyz").await?.body["withoutServers"].clone())
    }

    /// Returns the value of a counter, by its name with all labels. A counter without a value yet
    /// counts as 0.
    pub async fn counter(&self, name: &str) -> u64 {
        self.values(&format!("{name} ")).await.into_iter().sum()
    }

    /// Returns the address of the operations listener, once the server is ready.
    pub fn operations_address(&self) -> Option<SocketAddr> {
        self.operations
    }

    /// Returns the values of a gauge, one for each combination of its labels.
    pub async fn gauges(&self, name: &str) -> Vec<u64> {
        let values = self.values(&format!("{name}{{")).await;
        assert!(!values.is_empty(), "there is no {name}");
        values
    }

    /// Returns the values of the metric lines that start with `begin`.
    async fn values(&self, begin: &str) -> Vec<u64> {
        let metrics = self.get("/metrics").await.expect("an answer").text;
        let lines = metrics.lines().filter(|line| line.starts_with(begin));
        let values = lines.filter_map(|line| line.rsplit(' ').next());
        values.map(|value| value.parse().expect("a number")).collect()
    }

    /// Returns the status of a response of the operations listener, or `None` without a response.
    pub async fn operations(&self, path: &str) -> Option<u16> {
        self.get(path).await.map(|reply| reply.status)
    }

    async fn get(&self, path: &str) -> Option<Reply> {
        ApiClient::new(self.operations?, "").call("GET", path, None).await.ok()
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server at once, as a power loss would.
    pub fn kill(mut self) {
        self.child.kill().expect("a child");
        self.child.wait().expect("a child");
    }

    /// Asks the server to stop.
    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Sends a signal, such as `-STOP`, to the server.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.pid().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Returns `true` if the server has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Waits at most `bound` until the server has ended.
    pub async fn ended(&mut self, bound: Duration) -> ExitStatus {
        within(bound, "the server ends", async || self.child.try_wait().expect("a child")).await
    }
}
