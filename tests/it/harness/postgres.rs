//! A PostgreSQL server for one test, which the test can restart and kill.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use tempfile::TempDir;

use super::certificates::Authority;
use super::servers::{Process, free_port};
use super::wait::until;

/// The way in which a server is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The server aborts all transactions and shuts down in order.
    Fast,
    /// The server quits at once, and recovers at its next start.
    Immediate,
}

/// A PostgreSQL server with durable commits.
pub struct PostgresServer {
    pub port: u16,
    folder: TempDir,
    /// Settings in addition to the default ones.
    settings: Vec<String>,
    process: Option<Process>,
}

impl PostgresServer {
    /// Starts a server with an empty database called `postgres`.
    pub async fn start() -> Self {
        let mut server = Self::prepare();
        server.launch().await;
        server
    }

    /// Starts a server that speaks TLS with a certificate for 127.0.0.1. Also returns the file with
    /// the certificate of the authority.
    pub async fn start_with_tls(authority: &Authority) -> (Self, PathBuf) {
        let mut server = Self::prepare();
        let files = authority.server_files(&["127.0.0.1"], server.folder.path());
        std::fs::set_permissions(&files.key, Permissions::from_mode(0o600)).expect("changed");
        give_to_postgres(&files.key);
        let set = |name: &str, path: &Path| format!("{name}={}", path.display());
        server.settings = vec![
            "ssl=on".to_owned(),
            set("ssl_cert_file", &files.certificate),
            set("ssl_key_file", &files.key),
        ];
        server.launch().await;
        (server, files.authority)
    }

    fn prepare() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let server = Self { port: free_port(), folder, settings: Vec::new(), process: None };
        server.make_cluster();
        server
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Returns a command for a program of PostgreSQL. These programs refuse to run as root.
    fn program(name: &str) -> Command {
        let installed = std::fs::read_dir("/usr/lib/postgresql").expect("it is installed");
        let versions = installed.map(|version| version.expect("a folder").path());
        let newest = versions.max().expect("it is installed");
        let program = newest.join("bin").join(name);
        if !is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
        command.arg(program);
        command
    }

    fn make_cluster(&self) {
        give_to_postgres(self.folder.path());
        let mut initdb = Self::program("initdb");
        initdb.arg("--pgdata").arg(self.data()).args(["--username", "punctual"]);
        initdb.args(["--encoding", "UTF8", "--no-locale", "--auth", "trust", "--no-sync"]);
        let made = initdb.output().expect("initdb runs");
        assert!(made.status.success(), "{made:?}");
    }

    async fn launch(&mut self) {
        let mut command = Self::program("postgres");
        command.arg("-D").arg(self.data()).args(["-p", &self.port.to_string(), "-k", ""]);
        command.args(["-h", "127.0.0.1", "-c", "max_connections=200"]);
        command.args(["-c", "max_locks_per_transaction=256", "-c", "shared_buffers=64MB"]);
        command.args(self.settings.iter().flat_map(|setting| ["-c", setting]));
        self.process = Some(Process::start(command, &self.folder));
        until("PostgreSQL answers", async || {
            let mut connection = self.options().connect().await.ok()?;
            connection.ping().await.ok()
        })
        .await;
    }

    /// Stops the server.
    pub async fn stop(&mut self, how: Stop) {
        let mut process = self.process.take().expect("it runs");
        process.signal(if how == Stop::Fast { "-INT" } else { "-QUIT" });
        process.ended().await;
    }

    /// Starts the server again.
    pub async fn restart(&mut self) {
        self.launch().await;
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> String {
        format!("postgres://punctual:none@127.0.0.1:{}/postgres", self.port)
    }

    fn options(&self) -> PgConnectOptions {
        self.url().parse().expect("a URL")
    }

    /// Opens a second connection, independent of the service under test.
    pub async fn second_connection(&self) -> PgConnection {
        self.options().connect().await.expect("it answers")
    }
}

/// Gives a path to the user that runs the server, if the tests run as root.
fn give_to_postgres(path: &Path) {
    if is_root() {
        let given = Command::new("chown").arg("postgres").arg(path).status();
        assert!(given.expect("chown runs").success());
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}
