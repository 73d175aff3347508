//! A target that responds at once, on its own thread, and records the arrival times. It answers
//! `/fail` with 500 and records the failed job. It answers `/long` with a body of [`LONG`] bytes.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use punctual::domain::Timestamp;
use punctual::runtime::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::load;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok";

const FAILURE: &[u8] =
    b"HTTP/1.1 500 Internal Server Error\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nno";

/// The length of a typical response body, in bytes.
pub const LONG: usize = 300;

fn long_answer() -> &'static [u8] {
    static ANSWER: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let body = "a".repeat(LONG);
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {LONG}\r\n\r\n{body}"
        )
        .into_bytes()
    });
    &ANSWER
}

/// A running target.
#[derive(Clone)]
pub struct Target {
    pub address: SocketAddr,
    seen: Arc<Seen>,
}

struct Seen {
    count: AtomicUsize,
    /// The time from the scheduled instant to the arrival, for each request.
    lags: Mutex<Vec<Duration>>,
    /// The time at which each job was failed.
    failures: Mutex<HashMap<String, Instant>>,
    clock: Clock,
}

impl Target {
    /// Starts a target.
    pub fn start() -> Self {
        let (tell, address) = std::sync::mpsc::channel();
        let clock = Clock::system();
        let seen = Arc::new(Seen {
            count: AtomicUsize::new(0),
            lags: Mutex::default(),
            failures: Mutex::default(),
            clock,
        });
        let inner = seen.clone();
        thread::spawn(move || {
            load::runtime().block_on(async move {
                let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).await;
                let listener = listener.expect("a free port");
                tell.send(listener.local_addr().expect("bound")).expect("the caller waits");
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, inner.clone()));
                }
            });
        });
        let bound: SocketAddr = address.recv().expect("the thread runs");
        Self { address: (Ipv4Addr::LOCALHOST, bound.port()).into(), seen }
    }

    /// Returns the URL for schedules.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Returns the number of requests since the last `take_lags`.
    pub fn count(&self) -> usize {
        self.seen.count.load(Ordering::Acquire)
    }

    /// Waits until `count` requests have arrived. Fails after `timeout`.
    pub fn wait_for(&self, count: usize, timeout: Duration) {
        let start = Instant::now();
        while self.count() < count {
            let seen = self.count();
            assert!(start.elapsed() < timeout, "{seen} of {count} requests in {timeout:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns the failed jobs with their times, and clears the record.
    pub fn take_failures(&self) -> HashMap<String, Instant> {
        std::mem::take(&mut self.seen.failures.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the recorded lags, and clears the record and the count.
    pub fn take_lags(&self) -> Vec<Duration> {
        let mut lags = self.seen.lags.lock().unwrap_or_else(PoisonError::into_inner);
        self.seen.count.store(0, Ordering::Release);
        std::mem::take(&mut lags)
    }
}

/// Serves the requests of a connection. They have no body and arrive one after the other.
async fn serve(mut stream: TcpStream, seen: Arc<Seen>) {
    let (mut buffer, mut length) = ([0; 8 * 1024], 0);
    let _ = stream.set_nodelay(true);
    while let Ok(read @ 1..) = stream.read(&mut buffer[length..]).await {
        length += read;
        if buffer[..length].ends_with(b"\r\n\r\n") {
            let answer = note(&seen, &buffer[..length]);
            length = 0;
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
    }
}

/// Records a request and returns the response.
fn note(seen: &Seen, head: &[u8]) -> &'static [u8] {
    let now = seen.clock.now();
    let head = String::from_utf8_lossy(head);
    let header = |name| head.split_once(name).and_then(|(_, rest)| rest.lines().next());
    let scheduled = header("punctual-scheduled-at: ");
    if let Some(Ok(scheduled)) = scheduled.map(str::parse::<Timestamp>) {
        seen.lags.lock().unwrap_or_else(PoisonError::into_inner).push(now.since(scheduled));
    }
    seen.count.fetch_add(1, Ordering::Release);
    if head.starts_with("GET /long ") {
        return long_answer();
    }
    if !head.starts_with("GET /fail ") {
        return ANSWER;
    }
    let job = header("punctual-job-id: ").unwrap_or_default().to_owned();
    let mut failures = seen.failures.lock().unwrap_or_else(PoisonError::into_inner);
    failures.insert(job, Instant::now());
    FAILURE
}
