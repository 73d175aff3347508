//! A disk that is full for a while.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::client::schedule;
use crate::harness::process::{Installation, Server};
use crate::harness::recorder::Recorder;
use crate::harness::wait::until;

/// The disk of a server, which a test can fill.
trait Disk {
    fn fill(&self, server: &Server);
    fn clear(&self, server: &Server);
}

/// A small disk in memory that only the server sees.
struct Tmpfs(PathBuf);

impl Tmpfs {
    const BYTES: usize = 8 << 20;

    /// Returns `true` if this machine lets a process mount such a disk.
    ///
    /// # Panics
    /// If it does not, although this process has the capability to mount disks. Containers without
    /// it, and machines that forbid user namespaces to users, need not let a process mount one.
    fn is_possible() -> bool {
        let script = "mount -t tmpfs none /mnt";
        let tried = Command::new("unshare").args(["-rm", "sh", "-c", script]).output();
        let is_possible = tried.as_ref().is_ok_and(|output| output.status.success());
        assert!(is_possible || !may_mount(), "this machine must mount a disk: {tried:?}");
        is_possible
    }

    fn filler(&self, server: &Server) -> PathBuf {
        let inside = self.0.strip_prefix("/").expect("absolute").join("filler");
        PathBuf::from(format!("/proc/{}/root", server.pid())).join(inside)
    }
}

/// Returns `true` if this process has `CAP_SYS_ADMIN`.
fn may_mount() -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let status = fs::read_to_string("/proc/self/status").expect("the state of this process");
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    effective.expect("a mask") & CAP_SYS_ADMIN != 0
}

impl Disk for Tmpfs {
    fn fill(&self, server: &Server) {
        let path = self.filler(server);
        let full = fs::write(&path, vec![0; Self::BYTES]).expect_err("it is not that large");
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    }

    fn clear(&self, server: &Server) {
        fs::remove_file(self.filler(server)).expect("removed");
    }
}

/// A limit on the size of files, for machines that cannot mount a disk.
struct Limit;

impl Limit {
    fn set(server: &Server, bytes: &str) {
        let (pid, limit) = (server.pid().to_string(), format!("--fsize={bytes}:unlimited"));
        let status = Command::new("prlimit").args(["--pid", &pid, &limit]).status();
        assert!(status.expect("prlimit is installed").success());
    }
}

impl Disk for Limit {
    fn fill(&self, server: &Server) {
        Self::set(server, "1000");
    }

    fn clear(&self, server: &Server) {
        Self::set(server, "unlimited");
    }
}

/// Asserts that rejected calls leave no trace, that accepted jobs finish, and that the service
/// recovers by itself.
async fn is_outlived(installation: &mut Installation, disk: impl Disk) {
    let target = Recorder::start().await;
    let server = installation.serve().await;
    let api = installation.client(&server);
    let hanging = api.create(&target.url("/hang"), json!({})).await;
    let running = api.trigger(&hanging).await;
    until("the hanging attempt is sent", async || (target.count() == 1).then_some(())).await;

    disk.fill(&server);
    let large = json!({ "body": "x".repeat(200_000) });
    let create = api.post("/v1/schedules", &schedule(&target.url("/ok"), large)).await;
    assert_eq!(create.status, 503, "{create:?}");
    assert_eq!(create.body["error"]["code"], "SERVICE_UNAVAILABLE");
    target.release();
    assert_eq!(api.job(&running).await["id"], running.as_str(), "reads continue");

    disk.clear(&server);
    let job = api.finished(&running).await;
    assert_eq!((&job["status"], &job["attemptNumber"]), (&json!("SUCCESS"), &json!(1)));
    let trigger = api.post(&format!("/v1/schedules/{hanging}/trigger"), &Value::Null).await;
    let next = trigger.data().as_str().expect("an id");
    assert_eq!(api.finished(next).await["status"], "SUCCESS");
    let all = api.get("/v1/schedules").await;
    assert_eq!(all.data().as_array().map(Vec::len), Some(1), "the refused schedules do not exist");
    let jobs = api.jobs("").await;
    assert_eq!((jobs.len(), target.count()), (2, 2));
}

#[tokio::test]
async fn the_service_survives_a_full_disk() {
    if !Tmpfs::is_possible() {
        println!("this machine lets no process mount a disk; the limit on files is tested alone");
        return;
    }
    let mut installation = Installation::new(&[("PUNCTUAL_EXECUTOR_CLAIM_SECONDS", "60")]);
    let data = installation.data_dir();
    let data = data.to_str().expect("text");
    let size = Tmpfs::BYTES;
    let script = format!(
        "cp -r '{data}' '{data}.copy' && mount -t tmpfs -o size={size} none '{data}' \
         && cp '{data}.copy'/* '{data}' && exec \"$0\" \"$@\""
    );
    installation.serve_by(&["unshare", "-rm", "sh", "-c", &script]);
    is_outlived(&mut installation, Tmpfs(data.into())).await;
}

#[tokio::test]
async fn the_service_survives_a_limit_on_file_sizes() {
    let mut installation = Installation::new(&[("PUNCTUAL_EXECUTOR_CLAIM_SECONDS", "60")]);
    // Without this signal, which would end the process, writes fail as on a full disk.
    installation.serve_by(&["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
    is_outlived(&mut installation, Limit).await;
}
