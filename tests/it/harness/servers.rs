//! Redis and etcd servers that a test has for itself, to kill, pause and wipe.
//!
//! The servers that tests share are those of `tests/servers`.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::certificates::ServerFiles;
use super::wait::{until, within};

/// How long three members may take to agree on a machine that is busy with everything else.
const START: Duration = Duration::from_secs(60);

/// The address of a shared server, from the environment.
///
/// # Panics
/// If there is none.
pub fn shared(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run this test by tests/servers, as in `tests/servers cargo test`")
    })
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// A port for a node of a Redis Cluster: what nodes say to each other goes to a port that follows
/// from it.
pub fn free_node_port() -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let fits = |port: &u16| port.checked_add(10_000).is_some_and(is_free);
    std::iter::repeat_with(free_port).find(fits).expect("one of many")
}

/// Whether somebody listens on a port of this machine.
pub fn listens(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}

/// A server process; killed when it is dropped.
pub struct Process {
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts it with its output in a file of `folder`.
    pub fn start(mut command: Command, folder: &TempDir) -> Self {
        let log = File::create(folder.path().join("log")).expect("a log");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        Self { child: command.spawn().expect("the server is installed, see tests/servers") }
    }

    /// Sends it a signal, such as `-QUIT`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    }

    /// Waits for its end.
    pub async fn ended(&mut self) {
        let ended = async || self.child.try_wait().expect("a child").map(drop);
        until("the server ends", ended).await;
    }

    /// Stops it from doing anything, while its connections stay open.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal("-CONT");
    }
}

/// How many slots a Redis Cluster has: its protocol says so.
pub const SLOTS: u32 = 16_384;

/// The password of a test's own Redis.
pub const PASSWORD: &str = "hunter2";

/// A Redis server that forgets everything when it ends.
pub struct RedisServer {
    pub port: u16,
    folder: TempDir,
    settings: Vec<String>,
    process: Option<Process>,
}

impl RedisServer {
    /// One with settings over the usual ones, such as `["--maxmemory", "5mb"]`.
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

    /// A Redis Cluster of one node, with settings over the usual ones.
    pub async fn start_cluster(settings: &[&str]) -> Self {
        let server = Self::start_node(settings).await;
        let mut add = redis::cmd("CLUSTER");
        let _: () = server.run(add.arg("ADDSLOTS").arg((0..SLOTS).collect::<Vec<_>>())).await;
        server.has_joined().await;
        server
    }

    /// A node of a Redis Cluster to be, with settings over the usual ones.
    pub async fn start_node(settings: &[&str]) -> Self {
        let settings = [&["--cluster-enabled", "yes"], settings].concat();
        Self::start_at(free_node_port(), &settings).await
    }

    /// Waits until a node sees all slots of its cluster taken care of.
    pub async fn has_joined(&self) {
        until("the cluster is up", async || {
            let state: String = self.run(redis::cmd("CLUSTER").arg("INFO")).await;
            let all = format!("cluster_slots_ok:{SLOTS}\r\n");
            (state.contains("cluster_state:ok") && state.contains(&all)).then_some(())
        })
        .await;
    }

    /// The process.
    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("it runs")
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it on the same port, empty.
    pub async fn restart(&mut self) {
        self.process = None;
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.args(["--port", &self.port.to_string(), "--requirepass", PASSWORD]);
        command.arg("--dir").arg(self.folder.path()).args(&self.settings);
        self.process = Some(Process::start(command, &self.folder));
        until("Redis listens", async || listens(self.port).then_some(())).await;
    }

    /// Its address, with `password`.
    pub fn url_with(&self, password: &str) -> String {
        format!("redis://:{password}@127.0.0.1:{}", self.port)
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.url_with(PASSWORD)
    }

    /// Runs a command on it.
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

/// An etcd of one or three members.
pub struct EtcdServers {
    pub clients: Vec<u16>,
    peers: Vec<u16>,
    tls: Option<ServerFiles>,
    folders: Vec<TempDir>,
    processes: Vec<Option<Process>>,
}

impl EtcdServers {
    /// One of so many members.
    pub async fn start(members: usize) -> Self {
        let servers = Self::launch_all(members, None);
        servers.ready().await;
        servers
    }

    /// One member that clients reach over TLS.
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

    /// Waits until it takes writes.
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

    /// Ends a member at once.
    pub fn kill(&mut self, member: usize) {
        self.processes[member] = None;
    }

    /// Starts a member that was killed.
    pub fn restart(&mut self, member: usize) {
        self.launch(member);
    }

    /// A copy of what a member knows that was killed.
    pub fn copy(&self, member: usize) -> TempDir {
        let copy = tempfile::tempdir().expect("a folder");
        copy_folder(&self.data(member), copy.path());
        copy
    }

    /// Lets a member that was killed forget everything.
    pub fn wipe(&self, member: usize) {
        std::fs::remove_dir_all(self.data(member)).expect("removed");
    }

    /// Gives a member that was killed what a copy knows.
    pub fn replace(&self, member: usize, copy: &TempDir) {
        self.wipe(member);
        copy_folder(copy.path(), &self.data(member));
    }

    fn data(&self, member: usize) -> PathBuf {
        self.folders[member].path().join("data")
    }

    /// The process of a member.
    pub fn process(&self, member: usize) -> &Process {
        self.processes[member].as_ref().expect("it runs")
    }

    /// Its address, with `login` before the first host and a prefix of the caller's own.
    pub fn url(&self, login: &str) -> String {
        let hosts: Vec<_> = self.clients.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("etcd://{login}{}/test", hosts.join(","))
    }

    /// A client of it.
    pub async fn client(&self) -> etcd_client::Client {
        let endpoint = format!("127.0.0.1:{}", self.clients[0]);
        etcd_client::Client::connect([endpoint], None).await.expect("it answers")
    }
}
