//! The service as a process: its start, its signals, and machines without free resources.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use punctual::runtime::Clock;

use super::{expect_failure, folder, punctual, result, run};

/// The timeout of all waits.
const TIMEOUT: Duration = Duration::from_secs(20);
const FREE_PORTS: [&str; 4] = ["--http-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"];

/// A running `punctual dev`. It is killed when it is dropped.
struct Dev {
    child: Child,
    /// Kept open, so that writing to it does not fail.
    _out: BufReader<ChildStdout>,
    api: String,
    ops: String,
    key: Option<String>,
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Dev {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("started");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        let (mut text, mut line) = (String::new(), String::new());
        while !line.contains("Ctrl-C stops") {
            line.clear();
            let read = out.read_line(&mut line).expect("UTF-8");
            assert_ne!(read, 0, "ended after {text:?}");
            text.push_str(&line);
        }
        let after = |mark: &str| {
            let (_, rest) = text.split_once(mark)?;
            rest.split_whitespace().next().map(str::to_owned)
        };
        let host =
            |url: String| url.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
        Self {
            child,
            _out: out,
            api: host(after("  API ").expect("a base URL")),
            ops: host(after("  Operations ").expect("a URL").replace("/metrics", "")),
            key: after("  API key ").filter(|key| key.starts_with("pnc_")),
        }
    }

    fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        let kill = kill.args(["-s", name, &self.child.id().to_string()]);
        assert!(kill.status().expect("kill is installed").success());
    }

    /// Returns the response to an API call with the key, or an empty text without one.
    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let key = self.key.as_deref().unwrap_or_default();
        let length = body.len();
        let rest = format!("x-api-key: {key}\r\ncontent-length: {length}\r\n\r\n{body}");
        ask(&self.api, &format!("{method} {path}"), &rest).unwrap_or_default()
    }

    fn get(&self, path: &str) -> String {
        self.ask("GET", path, "")
    }

    /// Triggers the newest schedule.
    fn trigger(&self) {
        let schedules = self.get("/v1/schedules");
        let (_, id) = schedules.split_once("\"id\":\"").expect("a schedule");
        let id = id.split('"').next().expect("an id");
        let done = self.ask("POST", &format!("/v1/schedules/{id}/trigger"), "");
        assert!(done.contains("\"success\":true"), "{done}");
    }

    /// Waits until the process has ended by itself and returns its exit status.
    fn end(mut self) -> Option<i32> {
        let status = within(TIMEOUT, || self.child.try_wait().expect("ours"));
        status.code()
    }
}

/// Returns the response to a request. `rest` follows the common headers.
fn ask(host: &str, what: &str, rest: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let request = format!("{what} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{rest}");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Returns the number of connections that the process could not accept. Asks over one that it has
/// accepted, because a new one would need a file descriptor.
fn accept_errors(accepted: &mut BufReader<TcpStream>) -> String {
    let request = b"GET /metrics HTTP/1.1\r\nHost: ops\r\n\r\n";
    accepted.get_mut().write_all(request).expect("sent");
    let mut lines = accepted.by_ref().lines().map(|line| line.expect("answered"));
    let count =
        lines.find_map(|line| Some(line.strip_prefix("punctual_accept_errors_total ")?.into()));
    count.expect("the metric")
}

/// Calls `value` repeatedly until it returns a value.
fn within<T>(timeout: Duration, mut value: impl FnMut() -> Option<T>) -> T {
    let clock = Clock::system();
    let end = clock.monotonic() + timeout;
    loop {
        if let Some(value) = value() {
            return value;
        }
        assert!(clock.monotonic() < end, "not within {timeout:?}");
        // This lets the other process run, because there may be a single core.
        std::thread::yield_now();
    }
}

fn dev(folder: &Path) -> Command {
    let mut command = punctual(folder, &[&["dev"][..], &FREE_PORTS].concat());
    unlimited(command.stderr(Stdio::null()));
    command
}

/// Disables the rate limits, so that a test can call as often as it needs.
fn unlimited(command: &mut Command) {
    command.env("PUNCTUAL_RATE_PER_MINUTE", "0").env("PUNCTUAL_RATE_PER_HOUR", "0");
}

fn demo_succeeded(dev: &Dev) {
    within(TIMEOUT, || dev.get("/v1/jobs").contains("\"SUCCESS\"").then_some(()));
}

#[test]
fn dev_runs_its_demo_and_stops_on_sigterm() {
    let folder = folder();
    let first = Dev::start(dev(folder.path()));
    assert!(first.key.is_some(), "shown on an empty store");
    demo_succeeded(&first);
    assert!(ask(&first.ops, "GET /readyz", "\r\n").expect("served").starts_with("HTTP/1.1 200 "));
    let healthy = run(folder.path(), &["healthcheck", "--ops-listen", &first.ops]);
    assert_eq!(healthy.status, Some(0), "{}", healthy.err);

    // Commands of operators work while the server runs. A second server is rejected.
    assert!(result(folder.path(), &["account", "list"]).contains("  dev  "));
    let second = run(folder.path(), &[&["serve"][..], &FREE_PORTS].concat());
    assert_eq!(second.status, Some(1));
    assert!(second.err.contains("another server uses"), "{}", second.err);
    let taken = ["serve", "--data-dir", "other", "--http-listen", &first.api];
    let taken = run(folder.path(), &[&taken[..], &["--ops-listen", "127.0.0.1:0"]].concat());
    assert_eq!(taken.status, Some(1));
    assert!(taken.err.contains("(http.listen): the port is in use"), "{}", taken.err);

    first.signal("TERM");
    assert_eq!(first.end(), Some(0));
    let again = Dev::start(dev(folder.path()));
    assert_eq!(again.key, None, "only the hash is kept");
    again.signal("INT");
    assert_eq!(again.end(), Some(0));
}

/// Creates a target that accepts connections and never responds, and a job that is calling it.
fn hanging_attempt(dev: &Dev) -> (TcpListener, TcpStream) {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let target = silent.local_addr().expect("bound");
    let schedule = format!(
        r#"{{"name":"slow","cronExpression":"0 0 1 1 *","timezone":"UTC","endpoint":"http://{target}/","httpMethod":"GET"}}"#
    );
    assert!(dev.ask("POST", "/v1/schedules", &schedule).contains("HTTP/1.1 201 "));
    dev.trigger();
    let (attempt, _) = silent.accept().expect("called");
    (silent, attempt)
}

#[test]
fn a_second_signal_ends_the_wait_for_running_attempts() {
    let folder = folder();
    let dev = Dev::start(dev(folder.path()));
    let _hanging = hanging_attempt(&dev);
    dev.signal("TERM");
    within(TIMEOUT, || {
        let answer = ask(&dev.ops, "GET /readyz", "\r\n").expect("it can be watched until its end");
        answer.contains(r#"{"status":"draining"}"#).then_some(())
    });
    dev.signal("TERM");
    assert_eq!(dev.end(), Some(130));
}

#[test]
fn an_attempt_that_outlives_the_grace_period_is_cut_off_and_recorded() {
    let folder = folder();
    let mut command = dev(folder.path());
    command.env("PUNCTUAL_SHUTDOWN_GRACE_SECONDS", "1");
    let first = Dev::start(command);
    let (silent, _attempt) = hanging_attempt(&first);
    let key = first.key.clone();
    first.signal("TERM");
    assert_eq!(first.end(), Some(1));

    silent.set_nonblocking(true).expect("a socket");
    let mut again = Dev::start(dev(folder.path()));
    again.key = key;
    let _attempt = within(TIMEOUT, || silent.accept().ok());
    let jobs = again.get("/v1/jobs");
    assert!(jobs.contains("\"attemptNumber\":2"), "{jobs}");
}

/// F81: the log has no reader, and its pipe (64 KiB) is full.
#[test]
fn a_log_without_a_reader_delays_no_jobs() {
    let folder = folder();
    let mut command = dev(folder.path());
    command.stderr(Stdio::piped()).env("PUNCTUAL_LOG", "trace");
    let dev = Dev::start(command);
    // Each call logs a line of about 200 bytes.
    for _ in 0..600 {
        assert!(dev.get("/v1/schedules").contains("\"demo\""));
    }
    demo_succeeded(&dev);
    dev.trigger();
    within(TIMEOUT, || (dev.get("/v1/jobs").matches("\"SUCCESS\"").count() == 2).then_some(()));
}

/// F82: no file descriptors are left.
#[test]
fn the_service_survives_a_lack_of_file_descriptors() {
    let folder = folder();
    let mut command = Command::new("sh");
    let script = "ulimit -n 96; exec \"$0\" \"$@\"";
    command.args(["-c", script, env!("CARGO_BIN_EXE_punctual"), "dev"]).args(FREE_PORTS);
    unlimited(command.current_dir(folder.path()).env_clear().stderr(Stdio::null()));
    let dev = Dev::start(command);
    demo_succeeded(&dev);
    let accepted = TcpStream::connect(&dev.ops).expect("connected");
    accepted.set_read_timeout(Some(TIMEOUT)).expect("set");
    let mut accepted = BufReader::new(accepted);
    assert_eq!(accept_errors(&mut accepted), "0");
    let hoarded: Vec<_> = (0..150).filter_map(|_| TcpStream::connect(&dev.ops).ok()).collect();
    assert!(hoarded.len() > 96, "the system queues connections that the process cannot accept");
    within(TIMEOUT, || (accept_errors(&mut accepted) != "0").then_some(()));
    drop(hoarded);
    within(TIMEOUT, || dev.get("/v1/schedules").contains("\"demo\"").then_some(()));
}

#[test]
fn a_wrong_configuration_is_reported_before_a_port_is_bound() {
    let folder = folder();
    let wrong = expect_failure(folder.path(), &["serve", "--store-url", "postgres://a:b@c/d"], 2);
    assert!(wrong.contains("a cluster needs store.url = postgres://…, queue.url"), "{wrong}");
    assert!(!wrong.contains("a:b"), "{wrong}");
    assert!(!folder.path().join("punctual-data").exists());
}
