//! Redis and etcd servers for one test, which the test can kill, pause and wipe.
//!
//! `tests/servers` starts the servers that all tests share.

use std::fs::File;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use punctual::runtime::Random;
use tempfile::TempDir;

use super::certificates::ServerFiles;
use super::wait::{until, within};

/// The timeout for three members to elect a leader on a busy machine.
const START: Duration = Duration::from_secs(60);

/// Returns the address of a shared server from an environment variable.
///
/// Ends the test program with a message if the variable is not set.
pub fn shared(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        // Hundreds of tests would fail with the same message, and the test runner would show it
        // last.
        let message = format!(
            "\n{variable} is not set: these tests need servers. `tests/run` installs the servers and \
             runs all tests; `tests/servers cargo nextest run NAME` runs some.\n\n"
        );
        let _ = std::io::stderr().write_all(message.as_bytes());
        std::process::exit(101)
    })
}

/// The ports for servers. Linux takes the ports of outgoing connections from 32,768 on, so none of
/// them can take a port of these before its server listens.
const PORTS: Range<u16> = 12_000..32_000;

/// Returns a port that was free a moment ago. It is a random one, so that tests that run at once
/// get different ones.
pub fn free_port() -> u16 {
    free_port_of(PORTS)
}

/// Returns a free port for a node of a Redis Cluster. The nodes talk to each other on the port
/// 10,000 above it, so that port is free too.
pub fn free_node_port() -> u16 {
    let nodes = PORTS.start..PORTS.end - 10_000;
    let fits = |port: &u16| is_free(port + 10_000);
    std::iter::repeat_with(|| free_port_of(nodes.clone())).find(fits).expect("one of many")
}

fn free_port_of(ports: Range<u16>) -> u16 {
    let random = Random::system();
    let mut next = || {
        let offset = random.bits() % u128::from(ports.end - ports.start);
        ports.start + u16::try_from(offset).expect("below the number of ports")
    };
    std::iter::repeat_with(&mut next).find(|port| is_free(*port)).expect("one of many")
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Returns `true` if a process listens on a port of this machine.
pub fn listens(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}

/// A server process. It is killed when it is dropped.
pub struct Process {
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts a process with its output in a file in `folder`.
    pub fn start(mut command: Command, folder: &TempDir) -> Self {
        let log = File::create(folder.path().join("log")).expect("a log");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        Self { child: command.spawn().expect("the server is installed, see tests/servers") }
    }

    /// Sends a signal, such as `-QUIT`, to the process.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Waits until the process has ended.
    pub async fn ended(&mut self) {
        let ended = async || self.child.try_wait().expect("a child").map(drop);
        until("the server ends", ended).await;
    }

    /// Pauses the process. Its connections stay open.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Resumes the process.
    pub fn resume(&self) {
        self.signal("-CONT");
    }
}

/// The number of slots of a Redis Cluster, from its protocol.
pub const SLOTS: u32 = 16_384;

/// The password of a Redis server of one test.
pub const PASSWORD: &str = "hunter2";

/// A Redis server without persistence.
pub struct RedisServer {
    pub port: u16,
    folder: TempDir,
    settings: Vec<String>,
    process: Option<Process>,
}

impl RedisServer {
    /// Starts a server with additional settings, such as `["--maxmemory", "5mb"]`.
    pub async fn start(settings: &[&str]) -> Self {
        Self::start_at(free_port(), settings).await
    }

    async fn start_at(port: u16, settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Self { port, folder, settings, process: None };
        server.restart().await;
        server
    }

    /// Starts a Redis Cluster of one node, with additional settings.
    pub async fn start_cluster(settings: &[&str]) -> Self {
        let server = Self::start_node(settings).await;
        let mut add = redis::cmd("CLUSTER");
        let _: () = server.run(add.arg("ADDSLOTS").arg((0..SLOTS).collect::<Vec<_>>())).await;
        server.has_joined().await;
        server
    }

    /// Starts a node for a future Redis Cluster, with additional settings.
    pub async fn start_node(settings: &[&str]) -> Self {
        let settings = [&["--cluster-enabled", "yes"], settings].concat();
        Self::start_at(free_node_port(), &settings).await
    }

    /// Waits until the node sees that all slots of its cluster are covered.
    pub async fn has_joined(&self) {
        until("the cluster is up", async || {
            let state: String = self.run(redis::cmd("CLUSTER").arg("INFO")).await;
            let all = format!("cluster_slots_ok:{SLOTS}\r\n");
            (state.contains("cluster_state:ok") && state.contains(&all)).then_some(())
        })
        .await;
    }

    /// Returns the process of the server.
    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("it runs")
    }

    /// Returns the folder of its files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills the server at once.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts the server on the same port, empty.
    pub async fn restart(&mut self) {
        self.process = None;
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.args(["--port", &self.port.to_string(), "--requirepass", PASSWORD]);
        command.arg("--dir").arg(self.folder.path()).args(&self.settings);
        self.process = Some(Process::start(command, &self.folder));
        until("Redis listens", async || listens(self.port).then_some(())).await;
    }

    /// Returns the URL of the server, with `password`.
    pub fn url_with(&self, password: &str) -> String {
        format!("redis://:{password}@127.0.0.1:{}", self.port)
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> String {
        self.url_with(PASSWORD)
    }

    /// Runs a command on the server.
    pub async fn run<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> T {
        let client = redis::Client::open(self.url()).expect("an address");
        let mut line = client.get_multiplexed_async_connection().await.expect("it answers");
        command.query_async(&mut line).await.expect("it takes the command")
    }
}

fn copy_folder(from: &Path, to: &Path) {
    let copied = Command::new("cp").args(["-a", "-T"]).arg(from).arg(to).status();
    assert!(copied.expect("cp runs").success());
}

/// An etcd cluster of one or three members.
pub struct EtcdServers {
    pub clients: Vec<u16>,
    peers: Vec<u16>,
    tls: Option<ServerFiles>,
    folders: Vec<TempDir>,
    processes: Vec<Option<Process>>,
}

impl EtcdServers {
    /// Starts a cluster of this many members.
    pub async fn start(members: usize) -> Self {
        let servers = Self::launch_all(members, None);
        servers.ready().await;
        servers
    }

    /// Starts a cluster of one member that serves its clients over TLS.
    pub async fn start_with_tls(files: &ServerFiles) -> Self {
        let servers = Self::launch_all(1, Some(files.clone()));
        until("etcd listens", async || listens(servers.clients[0]).then_some(())).await;
        servers
    }

    fn launch_all(members: usize, tls: Option<ServerFiles>) -> Self {
        let ports = || (0..members).map(|_| free_port()).collect::<Vec<_>>();
        let folders = (0..members).map(|_| tempfile::tempdir().expect("a folder")).collect();
        let processes = (0..members).map(|_| None).collect();
        let mut servers = Self { clients: ports(), peers: ports(), tls, folders, processes };
        for member in 0..members {
            servers.launch(member);
        }
        servers
    }

    fn launch(&mut self, member: usize) {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let name = |member: usize| format!("member{member}");
        let peers = self.peers.iter().enumerate();
        let cluster = peers.map(|(member, port)| format!("{}={}", name(member), url(*port)));
        let cluster = cluster.collect::<Vec<_>>().join(",");
        let (mut client, peer) = (url(self.clients[member]), url(self.peers[member]));
        let folder = &self.folders[member];
        let mut command = Command::new("etcd");
        if let Some(files) = &self.tls {
            client = client.replace("http://", "https://");
            command.arg("--cert-file").arg(&files.certificate).arg("--key-file").arg(&files.key);
        }
        command.args(["--name", &name(member), "--initial-cluster", &cluster]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.arg("--data-dir").arg(self.data(member)).args(["--logger", "zap"]);
        self.processes[member] = Some(Process::start(command, folder));
    }

    /// Waits until the cluster accepts writes.
    pub async fn ready(&self) {
        within(START, "etcd takes writes", async || self.try_put().await.ok()).await;
    }

    async fn try_put(&self) -> Result<(), etcd_client::Error> {
        let options = etcd_client::ConnectOptions::new().with_timeout(Duration::from_secs(1));
        let endpoints: Vec<_> =
            self.clients.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let mut client = etcd_client::Client::connect(endpoints, Some(options)).await?;
        client.put("ready", "", None).await.map(drop)
    }

    /// Kills a member at once.
    pub fn kill(&mut self, member: usize) {
        self.processes[member] = None;
    }

    /// Starts a killed member.
    pub fn restart(&mut self, member: usize) {
        self.launch(member);
    }

    /// Copies the data of a killed member.
    pub fn copy(&self, member: usize) -> TempDir {
        let copy = tempfile::tempdir().expect("a folder");
        copy_folder(&self.data(member), copy.path());
        copy
    }

    /// Deletes the data of a killed member.
    pub fn wipe(&self, member: usize) {
        std::fs::remove_dir_all(self.data(member)).expect("removed");
    }

    /// Replaces the data of a killed member with a copy.
    pub fn replace(&self, member: usize, copy: &TempDir) {
        self.wipe(member);
        copy_folder(copy.path(), &self.data(member));
    }

    fn data(&self, member: usize) -> PathBuf {
        self.folders[member].path().join("data")
    }

    /// Returns the process of a member.
    pub fn process(&self, member: usize) -> &Process {
        self.processes[member].as_ref().expect("it runs")
    }

    /// Returns the URL of the cluster, with `login` before the first host and with the prefix
    /// `/test`.
    pub fn url(&self, login: &str) -> String {
        let hosts: Vec<_> = self.clients.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("etcd://{login}{}/test", hosts.join(","))
    }

    /// Opens a client of the first member.
    pub async fn client(&self) -> etcd_client::Client {
        let endpoint = format!("127.0.0.1:{}", self.clients[0]);
        etcd_client::Client::connect([endpoint], None).await.expect("it answers")
    }
}
