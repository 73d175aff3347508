//! A receiver of alerts. It answers at once, on its own thread, and records the arrival times.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::load;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// The jobs of the received alerts, with the arrival times.
type Arrivals = Vec<(String, Instant)>;

/// A running receiver.
pub struct Receiver {
    address: SocketAddr,
    arrivals: Arc<Mutex<Arrivals>>,
}

impl Receiver {
    /// Starts a receiver.
    pub fn start() -> Self {
        let (tell, address) = std::sync::mpsc::channel();
        let arrivals: Arc<Mutex<Arrivals>> = Arc::default();
        let inner = arrivals.clone();
        thread::spawn(move || {
            load::runtime().block_on(async move {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
                let listener = listener.expect("a free port");
                tell.send(listener.local_addr().expect("bound")).expect("the caller waits");
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, inner.clone()));
                }
            });
        });
        Self { address: address.recv().expect("the thread runs"), arrivals }
    }

    /// Returns the URL of the webhook.
    pub fn url(&self) -> String {
        format!("http://{}/alerts", self.address)
    }

    fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the alerts that have arrived since the previous call.
    pub fn take(&self) -> Arrivals {
        std::mem::take(&mut self.arrivals())
    }

    /// Returns the times of the first and the last arrival.
    pub fn span(&self) -> (Instant, Instant) {
        let arrivals = self.arrivals();
        let times = || arrivals.iter().map(|(_, at)| *at);
        (times().min().expect("some came"), times().max().expect("some came"))
    }

    /// Waits until `count` alerts have arrived. Fails after `timeout`.
    pub fn wait_for(&self, count: usize, timeout: Duration) {
        let start = Instant::now();
        while self.arrivals().len() < count {
            let seen = self.arrivals().len();
            assert!(start.elapsed() < timeout, "{seen} of {count} alerts in {timeout:?}");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Serves the requests of a connection, which arrive one after the other.
async fn serve(mut stream: TcpStream, arrivals: Arc<Mutex<Arrivals>>) {
    let mut bytes = Vec::with_capacity(16 * 1024);
    let _ = stream.set_nodelay(true);
    while let Ok(1..) = stream.read_buf(&mut bytes).await {
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let length: usize = length.and_then(|length| length.parse().ok()).expect("a length");
        if body.len() < length {
            continue;
        }
        // A test notification names no job.
        if let Some((_, job)) = body.split_once(r#""job":{"id":""#) {
            let job = job.split('"').next().unwrap_or_default().to_owned();
            arrivals.lock().unwrap_or_else(PoisonError::into_inner).push((job, Instant::now()));
        }
        bytes.clear();
        if stream.write_all(ANSWER).await.is_err() {
            return;
        }
    }
}
