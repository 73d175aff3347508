//! One of the replicas, through all its lives.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::stores::Links;
use crate::harness::process::{Installation, Server};
use crate::harness::wait::until;

/// Where each replica answers users; absent while it does not run.
#[derive(Clone, Default)]
pub struct Doors(Arc<Mutex<Vec<Option<SocketAddr>>>>);

impl Doors {
    pub fn set(&self, replica: usize, door: Option<SocketAddr>) {
        let mut doors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let length = doors.len().max(replica + 1);
        doors.resize(length, None);
        doors[replica] = door;
    }

    /// Those that are open.
    pub fn open(&self) -> Vec<SocketAddr> {
        let doors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        doors.iter().flatten().copied().collect()
    }
}

/// A replica.
pub struct Replica {
    pub place: usize,
    pub links: Links,
    doors: Doors,
    faults: TempDir,
    /// Its settings, but for those of the life.
    pub settings: Vec<(&'static str, String)>,
    lives: usize,
    pub server: Option<Server>,
}

impl Replica {
    pub fn new(place: usize, links: Links, doors: Doors) -> Self {
        let faults = tempfile::tempdir().expect("a folder");
        Self { place, links, doors, faults, settings: Vec::new(), lives: 0, server: None }
    }

    /// The name of its present life.
    pub fn life(&self) -> String {
        format!("{}.{}", self.place, self.lives)
    }

    /// The name of its next life.
    pub fn next_life(&self) -> String {
        format!("{}.{}", self.place, self.lives + 1)
    }

    /// Starts it, and waits for nothing.
    pub fn launch(&mut self, installation: &mut Installation, stores: Vec<(&'static str, String)>) {
        self.lives += 1;
        let faults = self.faults.path().to_string_lossy().into_owned();
        let mut settings = self.settings.clone();
        settings.extend(stores);
        settings.push(("PUNCTUAL_TEST_FAULTS", faults));
        self.server = Some(installation.launch(&settings));
    }

    /// Waits until it serves.
    pub async fn ready(&mut self) {
        let server = self.server.as_mut().expect("it runs");
        server.ready().await;
        self.doors.set(self.place, server.public());
    }

    /// Its process, which runs.
    pub fn process(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        self.doors.set(self.place, None);
        self.server.take().expect("it runs").kill();
    }

    /// Notes that it has ended by itself.
    pub async fn died(&mut self) {
        until("it dies at the point", async || self.process_mut().has_ended().then_some(())).await;
        self.doors.set(self.place, None);
        self.server = None;
    }

    fn process_mut(&mut self) -> &mut Server {
        self.server.as_mut().expect("it runs")
    }

    /// Whether its process has ended, as it should not.
    pub fn has_ended(&mut self) -> bool {
        self.process_mut().has_ended()
    }

    /// Waits for the end of a process that was asked to stop.
    pub async fn ended(&mut self, bound: Duration) -> ExitStatus {
        let status = self.process_mut().ended(bound).await;
        self.doors.set(self.place, None);
        self.server = None;
        status
    }

    /// Lets users come to it no more, as a load balancer does before a stop.
    pub fn close_door(&self) {
        self.doors.set(self.place, None);
    }

    pub fn pause(&self) {
        self.process().signal("-STOP");
    }

    pub fn resume(&self) {
        self.process().signal("-CONT");
    }

    /// Whether its process is stopped.
    pub fn is_paused(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process().pid()));
        stat.is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')))
    }

    /// Waits until it has stopped itself.
    pub async fn paused(&self) {
        until("it stops at the point", async || self.is_paused().then_some(())).await;
    }

    fn file(&self, name: &str) -> PathBuf {
        self.faults.path().join(name)
    }

    /// What shall happen to it when it next gets to a point: `die` or `stop`.
    pub fn at(&self, point: punctual::runtime::faults::Point, what: &str) {
        let file = self.file(&format!("{point:?}"));
        // As a whole, so that it is not read half.
        let draft = self.file("draft");
        fs::write(&draft, what).expect("written");
        fs::rename(draft, file).expect("renamed");
    }

    /// It shall go on at all points.
    pub fn at_no_point(&self) {
        for entry in fs::read_dir(self.faults.path()).expect("a folder") {
            let path = entry.expect("a file").path();
            let content = fs::read_to_string(&path).unwrap_or_default();
            if matches!(content.as_str(), "die" | "stop") {
                // The process may have been there.
                let _ = fs::remove_file(path);
            }
        }
    }

    /// Lets it have a defect.
    pub fn break_it(&self, defect: punctual::runtime::faults::Defect) {
        fs::write(self.file(&format!("{defect:?}")), "broken").expect("written");
    }
}
