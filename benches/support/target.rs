//! The target: answers every request at once, on a thread of its own, and notes when it came.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use punctual::domain::Timestamp;
use punctual::runtime::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::load;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok";

/// A running target.
#[derive(Clone)]
pub struct Target {
    pub address: SocketAddr,
    seen: Arc<Seen>,
}

struct Seen {
    count: AtomicUsize,
    /// Per request: from the instant it was scheduled for to its arrival.
    lags: Mutex<Vec<Duration>>,
    clock: Clock,
}

impl Target {
    /// Starts one.
    pub fn start() -> Self {
        let (tell, address) = std::sync::mpsc::channel();
        let clock = Clock::system();
        let seen = Arc::new(Seen { count: AtomicUsize::new(0), lags: Mutex::default(), clock });
        let inner = seen.clone();
        thread::spawn(move || {
            load::runtime().block_on(async move {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
                let listener = listener.expect("a free port");
                tell.send(listener.local_addr().expect("bound")).expect("somebody waits");
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, inner.clone()));
                }
            });
        });
        Self { address: address.recv().expect("the thread runs"), seen }
    }

    /// The URL that schedules call.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Requests since the last `take_lags`.
    pub fn count(&self) -> usize {
        self.seen.count.load(Ordering::Acquire)
    }

    /// Waits until `count` requests have come; fails after `patience`.
    pub fn wait_for(&self, count: usize, patience: Duration) {
        let start = Instant::now();
        while self.count() < count {
            let seen = self.count();
            assert!(start.elapsed() < patience, "{seen} of {count} requests in {patience:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The lags noted so far; counts anew from here.
    pub fn take_lags(&self) -> Vec<Duration> {
        let mut lags = self.seen.lags.lock().unwrap_or_else(PoisonError::into_inner);
        self.seen.count.store(0, Ordering::Release);
        std::mem::take(&mut lags)
    }
}

/// Answers the requests of a connection. They have no body and come one after the other.
async fn serve(mut stream: TcpStream, seen: Arc<Seen>) {
    let (mut buffer, mut length) = ([0; 8 * 1024], 0);
    let _ = stream.set_nodelay(true);
    while let Ok(read @ 1..) = stream.read(&mut buffer[length..]).await {
        length += read;
        if buffer[..length].ends_with(b"\r\n\r\n") {
            note(&seen, &buffer[..length]);
            length = 0;
            if stream.write_all(ANSWER).await.is_err() {
                return;
            }
        }
    }
}

fn note(seen: &Seen, head: &[u8]) {
    let now = seen.clock.now();
    let head = String::from_utf8_lossy(head);
    let header = "punctual-scheduled-at: ";
    let scheduled = head.split_once(header).and_then(|(_, rest)| rest.lines().next());
    if let Some(Ok(scheduled)) = scheduled.map(str::parse::<Timestamp>) {
        seen.lags.lock().unwrap_or_else(PoisonError::into_inner).push(now.since(scheduled));
    }
    seen.count.fetch_add(1, Ordering::Release);
}
