//! A load generator on the calling thread: each connection sends one request after the other.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::target::Target;

/// Returns a single-threaded runtime.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

const BARE_REQUESTS: usize = 100_000;
/// The number of requests in flight at which a bare loop is fast.
const IN_FLIGHT: usize = 128;

/// Returns the requests per second of reqwest on this thread.
pub fn bare_loop(target: &Target) -> f64 {
    bare_loop_of(target, IN_FLIGHT)
}

/// Like `bare_loop`, with this number of requests in flight.
pub fn bare_loop_of(target: &Target, in_flight: usize) -> f64 {
    let _ = rustls::crypto::ring::default_provider().install_default();
    runtime().block_on(async {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let url = target.url();
        let start = Instant::now();
        let requests = stream::iter(0..BARE_REQUESTS).map(|_| async {
            let answer = client.get(&url).send().await.expect("an answer");
            answer.bytes().await.expect("a body")
        });
        let answers = requests.buffer_unordered(in_flight).count().await;
        answers as f64 / start.elapsed().as_secs_f64()
    })
}

/// Sends `request` over `connections` for `span`. Returns the responses per second, all of which
/// must be 200.
pub fn requests_per_second(
    address: SocketAddr,
    request: &str,
    connections: u16,
    span: Duration,
) -> f64 {
    runtime().block_on(async {
        let start = Instant::now();
        let all = (0..connections).map(|_| repeat(address, request, start + span));
        let counts = futures_util::future::join_all(all).await;
        f64::from(counts.iter().sum::<u32>()) / start.elapsed().as_secs_f64()
    })
}

async fn repeat(address: SocketAddr, request: &str, until: Instant) -> u32 {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    stream.set_nodelay(true).expect("a socket");
    let (mut buffer, mut count) = (vec![0; 64 * 1024], 0);
    while Instant::now() < until {
        stream.write_all(request.as_bytes()).await.expect("sent");
        answer(&mut stream, &mut buffer).await;
        count += 1;
    }
    count
}

/// Reads one complete response.
async fn answer(stream: &mut TcpStream, buffer: &mut [u8]) {
    let mut length = 0;
    loop {
        let read = stream.read(&mut buffer[length..]).await.expect("an answer");
        assert!(read > 0, "the server closed a connection");
        length += read;
        let text = &buffer[..length];
        let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&text[..end]).to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{}", String::from_utf8_lossy(text));
        let body = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let body: usize = body.and_then(|body| body.parse().ok()).expect("a length");
        if length == end + 4 + body {
            return;
        }
    }
}
