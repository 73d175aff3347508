//! The effects of one client on others, on the loop that serves both listeners.

mod keys;
mod limits;
mod stop;

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use punctual::runtime::{Clock, ServeLimits, Tasks, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The timeout of all waits.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A listener under test.
struct Served {
    address: SocketAddr,
    tasks: Tasks,
}

async fn start(router: Router, limits: ServeLimits) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let tasks = Tasks::new();
    serve(&tasks, &Clock::system(), listener, router, limits);
    Served { address, tasks }
}

impl Served {
    /// Opens a connection and sends `bytes` on it.
    async fn send(&self, bytes: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.expect("listening");
        stream.write_all(bytes.as_bytes()).await.expect("sent");
        stream
    }

    /// Returns the whole response to a `GET` on a separate connection.
    async fn get(&self, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        rest(&mut self.send(&request).await).await
    }
}

/// Reads until the server closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let read = stream.read_to_end(&mut text);
    // A connection may end cleanly or by a reset.
    let _ = tokio::time::timeout(TIMEOUT, read).await.expect("the server closes in time");
    String::from_utf8_lossy(&text).into_owned()
}

/// Reads until the end of the headers and `body`.
async fn answer(stream: &mut TcpStream, body: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(&format!("\r\n\r\n{body}")) {
        let mut bytes = [0; 1024];
        let read = tokio::time::timeout(TIMEOUT, stream.read(&mut bytes));
        let count = read.await.expect("an answer in time").expect("readable");
        assert_ne!(count, 0, "closed after {text:?}");
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    text
}
