//! A replica with all its processes, one after the other.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::mutations::Mutations;
use super::stores::Links;
use crate::harness::process::{Installation, Server};
use crate::harness::wait::until;

/// The API addresses of the replicas. `None` while a replica does not run.
#[derive(Clone, Default)]
pub struct Addresses(Arc<Mutex<Vec<Option<SocketAddr>>>>);

impl Addresses {
    pub fn set(&self, replica: usize, address: Option<SocketAddr>) {
        let mut addresses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let length = addresses.len().max(replica + 1);
        addresses.resize(length, None);
        addresses[replica] = address;
    }

    /// Returns the addresses of the running replicas.
    pub fn open(&self) -> Vec<SocketAddr> {
        let addresses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        addresses.iter().flatten().copied().collect()
    }
}

/// A replica.
pub struct Replica {
    pub index: usize,
    pub links: Links,
    addresses: Addresses,
    faults: TempDir,
    /// The settings of all its processes.
    pub settings: Vec<(&'static str, String)>,
    starts: usize,
    pub server: Option<Server>,
}

impl Replica {
    pub fn new(index: usize, links: Links, addresses: Addresses) -> Self {
        let faults = tempfile::tempdir().expect("a folder");
        Self { index, links, addresses, faults, settings: Vec::new(), starts: 0, server: None }
    }

    /// Returns the name of the current process.
    pub fn process_name(&self) -> String {
        format!("{}.{}", self.index, self.starts)
    }

    /// Returns the name of the next process.
    pub fn next_process_name(&self) -> String {
        format!("{}.{}", self.index, self.starts + 1)
    }

    /// Starts the replica without waiting for it.
    pub fn launch(&mut self, installation: &mut Installation, stores: Vec<(&'static str, String)>) {
        self.starts += 1;
        let faults = self.faults.path().to_string_lossy().into_owned();
        let mut settings = self.settings.clone();
        settings.extend(stores);
        settings.push(("PUNCTUAL_TEST_FAULTS", faults));
        self.server = Some(installation.launch(&settings));
    }

    /// Waits until the replica is ready.
    pub async fn ready(&mut self) {
        let server = self.server.as_mut().expect("it runs");
        server.ready().await;
        self.addresses.set(self.index, server.public());
    }

    /// Returns the running process.
    pub fn process(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    /// Kills the process at once.
    pub fn kill(&mut self) {
        self.addresses.set(self.index, None);
        self.server.take().expect("it runs").kill();
    }

    /// Waits until the process has died at a point, and records that.
    pub async fn died(&mut self) {
        until("the process dies at the fault point", async || {
            self.process_mut().has_ended().then_some(())
        })
        .await;
        self.addresses.set(self.index, None);
        self.server = None;
    }

    fn process_mut(&mut self) -> &mut Server {
        self.server.as_mut().expect("it runs")
    }

    /// Returns `true` if the process has ended unexpectedly.
    pub fn has_ended(&mut self) -> bool {
        self.process_mut().has_ended()
    }

    /// Waits at most `bound` for the end of a process that was asked to stop.
    pub async fn ended(&mut self, bound: Duration) -> ExitStatus {
        let status = self.process_mut().ended(bound).await;
        self.addresses.set(self.index, None);
        self.server = None;
        status
    }

    /// Stops new calls of users, as a load balancer does before a stop.
    pub fn hide_from_users(&self) {
        self.addresses.set(self.index, None);
    }

    pub fn pause(&self) {
        self.process().signal("-STOP");
    }

    pub fn resume(&self) {
        self.process().signal("-CONT");
    }

    /// Returns `true` if the process is paused.
    pub fn is_paused(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process().pid()));
        stat.is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')))
    }

    /// Waits until the process has paused itself at a point.
    pub async fn paused(&self) {
        until("the process pauses at the fault point", async || self.is_paused().then_some(()))
            .await;
    }

    fn file(&self, name: &str) -> PathBuf {
        self.faults.path().join(name)
    }

    /// Makes the process `die` or `stop` the next time it reaches a point.
    pub fn at(&self, point: punctual::runtime::faults::FaultPoint, what: &str) {
        self.write(&format!("{point:?}"), what);
    }

    /// Replaces statements of the process by wrong ones.
    pub fn mutate(&self, mutations: Mutations) {
        let changes: BTreeMap<_, _> = mutations.iter().copied().collect();
        self.write("statements.json", &serde_json::to_string(&changes).expect("JSON"));
    }

    /// Writes a file that the process reads.
    fn write(&self, name: &str, content: &str) {
        // The rename is atomic, so the process never reads half of the file.
        let draft = self.file("draft");
        fs::write(&draft, content).expect("written");
        fs::rename(draft, self.file(name)).expect("renamed");
    }

    /// Removes all actions at points.
    pub fn clear_fault_points(&self) {
        for entry in fs::read_dir(self.faults.path()).expect("a folder") {
            let path = entry.expect("a file").path();
            let content = fs::read_to_string(&path).unwrap_or_default();
            if matches!(content.as_str(), "die" | "stop") {
                // The process may have removed the file itself.
                let _ = fs::remove_file(path);
            }
        }
    }
}
