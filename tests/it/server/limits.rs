//! Limits: slow clients, too many clients, headers that are too large.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use punctual::runtime::{Clock, ServeLimits};
use tokio::io::AsyncWriteExt;

use super::{TIMEOUT, answer, rest, start};

/// S24: the number of sockets that send half a header.
const SLOW_CLIENTS: usize = 2_000;

/// Returns the number of clients that this process can hold. It has both ends of each socket.
fn affordable_clients() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let files = line.and_then(|line| line.split_whitespace().nth(3)?.parse::<usize>().ok());
    SLOW_CLIENTS.min(files.unwrap_or(1_024) / 3)
}

#[tokio::test(flavor = "multi_thread")]
async fn half_headers_do_not_stop_others_and_are_closed() {
    let router = Router::new().route("/healthz", get(|| async { "ok" }));
    let header_read = Duration::from_secs(10);
    let served = start(router, ServeLimits { header_read, ..ServeLimits::default() }).await;
    let mut slow = Vec::new();
    for _ in 0..affordable_clients() {
        slow.push(served.send("GET /healthz HTTP/1.1\r\nHo").await);
    }
    let clock = Clock::system();
    for _ in 0..5 {
        let asked = clock.monotonic();
        assert!(served.get("/healthz").await.ends_with("\r\n\r\nok"));
        let took = clock.monotonic() - asked;
        assert!(took < header_read / 2, "it does not wait for the slow clients: {took:?}");
    }
    for mut stream in slow {
        rest(&mut stream).await;
    }
    assert!(served.tasks.finish(TIMEOUT).await);
}

#[tokio::test]
async fn a_connection_left_idle_is_closed() {
    let router = Router::new().route("/", get(|| async { "ok" }));
    let header_read = Duration::from_millis(200);
    let served = start(router, ServeLimits { header_read, ..ServeLimits::default() }).await;
    let mut idle = served.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    answer(&mut idle, "ok").await;
    assert_eq!(rest(&mut idle).await, "");
}

#[tokio::test]
async fn clients_beyond_the_cap_wait_their_turn() {
    let router = Router::new().route("/", get(|| async { "ok" }));
    let served = start(router, ServeLimits { connections: 2, ..ServeLimits::default() }).await;
    let (mut one, two) = (served.send("").await, served.send("").await);
    one.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("sent");
    answer(&mut one, "ok").await;

    let third = served.get("/");
    tokio::pin!(third);
    let early = tokio::time::timeout(Duration::from_millis(200), &mut third).await;
    assert!(early.is_err(), "served beyond the cap");
    drop(two);
    assert!(third.await.ends_with("ok"));
}

#[tokio::test]
async fn a_client_that_reads_no_answer_is_disconnected() {
    let large = || async { vec![b'x'; 64 << 20] };
    let router = Router::new().route("/", get(|| async { "ok" })).route("/large", get(large));
    let write_stall = Duration::from_millis(300);
    let limits = ServeLimits { connections: 1, write_stall, ..ServeLimits::default() };
    let served = start(router, limits).await;
    let _unread = served.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(served.get("/").await.ends_with("ok"), "the only connection is free again");
}

#[tokio::test]
async fn too_large_headers_are_refused() {
    let router = Router::new().route("/", get(|| async { "ok" }));
    let served = start(router, ServeLimits { header_bytes: 4 << 10, ..ServeLimits::default() });
    let served = served.await;
    let request = |size| format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "y".repeat(size));
    answer(&mut served.send(&request(3 << 10)).await, "ok").await;
    let refused = rest(&mut served.send(&request(5 << 10)).await).await;
    assert!(refused.starts_with("HTTP/1.1 431 "), "{refused}");
}

#[tokio::test]
async fn requests_carry_the_address_of_their_peer() {
    let peer = |ConnectInfo(peer): ConnectInfo<SocketAddr>| async move { peer.to_string() };
    let served = start(Router::new().route("/", get(peer)), ServeLimits::default()).await;
    let mut stream = served.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let own = stream.local_addr().expect("connected").to_string();
    answer(&mut stream, &own).await;
}
