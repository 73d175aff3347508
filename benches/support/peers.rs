//! Other job queues with the same work, for comparison. `benches/peers/package.json` names their
//! packages of the npm registry.

use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

use tempfile::TempDir;

/// The other queues, installed in a folder that is deleted when this is dropped.
pub struct Peers(TempDir);

impl Peers {
    /// Installs the packages.
    pub fn install() -> Self {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers");
        let folder = tempfile::tempdir().expect("a folder");
        for file in ["package.json", "run.mjs"] {
            fs::copy(sources.join(file), folder.path().join(file)).expect("a copy");
        }
        let arguments = ["install", "--silent", "--no-audit", "--no-fund"];
        let done = Command::new("npm").args(arguments).current_dir(folder.path()).status();
        assert!(done.is_ok_and(|status| status.success()), "npm cannot install the other queues");
        Self(folder)
    }

    /// Returns the jobs per second of BullMQ on Redis.
    pub fn bullmq(&self, target: &str, count: usize) -> f64 {
        self.run("bullmq", "PUNCTUAL_TEST_REDIS", target, count)
    }

    /// Returns the jobs per second of graphile-worker on PostgreSQL.
    pub fn graphile(&self, target: &str, count: usize) -> f64 {
        self.run("graphile", "PUNCTUAL_TEST_POSTGRES", target, count)
    }

    fn run(&self, name: &str, server: &str, target: &str, count: usize) -> f64 {
        let url = env::var(server).expect("tests/servers sets it");
        let output = Command::new("node")
            .args(["run.mjs", name, &url, target, &count.to_string()])
            .current_dir(self.0.path())
            .stderr(Stdio::inherit())
            .output()
            .expect("node is installed");
        let printed = String::from_utf8_lossy(&output.stdout);
        printed.trim().parse().unwrap_or_else(|_| panic!("{name}: {printed}"))
    }
}
