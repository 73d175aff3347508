//! Runs the real binary, `punctual serve`, in its own folder: with everything embedded, or as
//! replicas of a cluster.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{cluster, http};

const PROGRAM: &str = env!("CARGO_BIN_EXE_punctual");
const TIMEOUT: Duration = Duration::from_secs(60);

/// The number of schedules in a bulk call.
pub const BULK: usize = 1_000;

/// A running service with one account and one key.
pub struct Service {
    folder: TempDir,
    settings: Vec<(String, String)>,
    process: Option<Child>,
    pub public: SocketAddr,
    pub operations: SocketAddr,
    pub key: String,
}

impl Service {
    /// Starts a service with `settings` in addition to those of every benchmark, which allow
    /// loopback targets and set high API rate limits. With the servers of a cluster, it is the
    /// first replica.
    pub fn start(settings: &[(&str, &str)]) -> Self {
        Self::start_on(cluster::settings(), settings)
    }

    /// Like `start`, with these settings of [`cluster::settings`].
    pub fn start_on(servers: Vec<(&str, String)>, settings: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (public, operations) = (free_address(), free_address());
        let base = [
            ("PUNCTUAL_DATA_DIR", folder.path().display().to_string()),
            ("PUNCTUAL_HTTP_LISTEN", public.to_string()),
            ("PUNCTUAL_OPS_LISTEN", operations.to_string()),
            ("PUNCTUAL_OUTBOUND_ALLOW", "127.0.0.0/8".to_owned()),
            ("PUNCTUAL_RATE_PER_MINUTE", "1000000000".to_owned()),
            ("PUNCTUAL_RATE_PER_HOUR", "1000000000".to_owned()),
            ("PUNCTUAL_LOG", "warn".to_owned()),
        ];
        let base = base.into_iter().chain(servers);
        let base = base.map(|(name, value)| (name.to_owned(), value));
        let own = settings.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let settings = base.chain(own).collect();
        let key = String::new();
        let mut service = Self { folder, settings, process: None, public, operations, key };
        service.run(&["account", "create", "bench"]);
        service.key = service.run(&["key", "create", "--account", "bench"]).trim().to_owned();
        service.launch();
        service
    }

    /// Starts another replica of the same cluster.
    pub fn beside(&self) -> Self {
        let (public, operations) = (free_address(), free_address());
        let mut settings = self.settings.clone();
        for (name, value) in &mut settings {
            match name.as_str() {
                "PUNCTUAL_HTTP_LISTEN" => *value = public.to_string(),
                "PUNCTUAL_OPS_LISTEN" => *value = operations.to_string(),
                _ => {}
            }
        }
        let folder = tempfile::tempdir().expect("a folder");
        let key = self.key.clone();
        let mut other = Self { folder, settings, process: None, public, operations, key };
        other.launch();
        other
    }

    /// Starts the process. Returns the time until it reports that it is ready.
    pub fn launch(&mut self) -> Duration {
        let start = Instant::now();
        let child = self.command(&["serve"]).stdout(Stdio::null()).spawn();
        self.process = Some(child.expect("the program starts"));
        while !matches!(http::call(self.operations, "GET", "/readyz", "", ""), Ok((200, _))) {
            assert!(start.elapsed() < TIMEOUT, "not ready in {TIMEOUT:?}");
            thread::sleep(Duration::from_millis(2));
        }
        start.elapsed()
    }

    /// Returns the URL of the store.
    pub fn store_url(&self) -> String {
        let set = self.settings.iter().find(|(name, _)| name == "PUNCTUAL_STORE_URL");
        let file = || format!("sqlite:{}", self.folder.path().join("punctual.db").display());
        set.map_or_else(file, |(_, url)| url.clone())
    }

    /// Sends a signal, such as `-KILL`, to the process.
    pub fn signal(&mut self, name: &str) {
        let Some(process) = &self.process else { return };
        let sent = Command::new("kill").args([name, &process.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "cannot signal the process");
    }

    /// Asks the process to stop, and waits until it has ended.
    pub fn stop(&mut self) {
        self.signal("-TERM");
        let Some(mut process) = self.process.take() else { return };
        let status = process.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }

    /// Makes an API call that must be answered with `status`. Returns the body.
    pub fn call(&self, method: &str, path: &str, body: &str, status: u16) -> String {
        let answer = http::call(self.public, method, path, &self.key, body);
        let (got, text) = answer.expect("an answer");
        assert_eq!(got, status, "{method} {path}: {text}");
        text
    }

    /// Creates `count` schedules with bulk calls. Returns their ids and the duration of each call.
    pub fn create(&self, count: usize, cron: &str, endpoint: &str) -> (Vec<String>, Vec<Duration>) {
        self.create_with(count, cron, endpoint, "")
    }

    /// Like `create`, with one attempt per job.
    pub fn create_failing(
        &self,
        count: usize,
        cron: &str,
        endpoint: &str,
    ) -> (Vec<String>, Vec<Duration>) {
        self.create_with(count, cron, endpoint, r#", "maxRetries": 1"#)
    }

    fn create_with(
        &self,
        count: usize,
        cron: &str,
        endpoint: &str,
        more: &str,
    ) -> (Vec<String>, Vec<Duration>) {
        let (mut ids, mut times) = (Vec::new(), Vec::new());
        while ids.len() < count {
            let schedule = format!(
                r#"{{"name": "bench", "cronExpression": "{cron}", "timezone": "UTC",
                    "endpoint": "{endpoint}", "httpMethod": "GET"{more}}}"#
            );
            let body = format!("[{}]", vec![schedule; BULK.min(count - ids.len())].join(","));
            let start = Instant::now();
            let text = self.call("POST", "/v1/schedules/bulk", &body, 201);
            times.push(start.elapsed());
            let found = text.split(r#""id":""#).skip(1).filter_map(|rest| rest.split('"').next());
            ids.extend(found.map(str::to_owned));
        }
        (ids, times)
    }

    /// Creates another account with `count` schedules.
    pub fn fill_account(&mut self, name: &str, count: usize, cron: &str, endpoint: &str) {
        self.run(&["account", "create", name]);
        let key = self.run(&["key", "create", "--account", name]).trim().to_owned();
        let own = std::mem::replace(&mut self.key, key);
        self.create(count, cron, endpoint);
        self.key = own;
    }

    /// Deletes an account. The service removes its data in the background.
    pub fn delete_account(&self, name: &str) {
        self.run(&["account", "delete", name, "--yes", "--no-wait"]);
    }

    /// Returns the sum of a metric over the series whose labels contain `label`.
    pub fn metric(&self, name: &str, label: &str) -> f64 {
        let (_, text) =
            http::call(self.operations, "GET", "/metrics", "", "").expect("the metrics");
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Returns the processor time used so far.
    pub fn processor_time(&self) -> Duration {
        let stat = self.proc_file("stat");
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
        let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<u64>().ok());
        // The fields utime and stime, in hundredths of a second on Linux.
        Duration::from_millis((ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)) * 10)
    }

    /// Returns the resident memory in MiB.
    pub fn resident_mib(&self) -> u64 {
        let status = self.proc_file("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) / 1024
    }

    fn proc_file(&self, name: &str) -> String {
        let id = self.process.as_ref().map_or(0, Child::id);
        fs::read_to_string(format!("/proc/{id}/{name}")).expect("the process runs")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        // The variables of `tests/servers` are no settings: the program would warn of each.
        for (name, _) in env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PUNCTUAL_TEST_") {
                command.env_remove(name);
            }
        }
        command.args(arguments).envs(self.settings.iter().cloned()).current_dir(self.folder.path());
        command
    }

    /// Runs a command to its end and returns its output.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().expect("the program starts");
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let _ = write!(text, "{}", String::from_utf8_lossy(&output.stderr));
            panic!("{arguments:?}: {text}");
        }
        text
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Returns an address that was free a moment ago.
pub fn free_address() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("bound")
}
