//! A stop: running requests are answered, and other connections are closed.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use punctual::runtime::ServeLimits;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::{TIMEOUT, answer, rest, start};

/// Returns a router whose `/slow` notifies `begun` at its start and waits for `go`.
fn slow_router(begun: &Arc<Notify>, go: &Arc<Notify>) -> Router {
    let (begun, go) = (begun.clone(), go.clone());
    let slow = get(|| async move {
        begun.notify_one();
        go.notified().await;
        "done"
    });
    Router::new().route("/slow", slow).route("/", get(|| async { "ok" }))
}

#[tokio::test]
async fn finishes_requests_and_closes_idle_connections() {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let served = start(slow_router(&begun, &go), ServeLimits::default()).await;
    let mut idle = served.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    answer(&mut idle, "ok").await;
    let mut fresh = served.send("").await;
    let mut busy = served.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await;
    begun.notified().await;

    served.tasks.begin_stop();
    assert_eq!(rest(&mut idle).await, "");
    assert_eq!(rest(&mut fresh).await, "");
    assert!(TcpStream::connect(served.address).await.is_err(), "still listening");
    go.notify_one();
    let answered = rest(&mut busy).await.to_lowercase();
    assert!(answered.ends_with("\r\n\r\ndone"), "{answered}");
    assert!(answered.contains("connection: close"), "{answered}");
    assert!(served.tasks.finish(TIMEOUT).await, "all ended by themselves");
}

#[tokio::test]
async fn goes_on_while_it_drains() {
    let limits = ServeLimits { drain: TIMEOUT, ..ServeLimits::default() };
    let served = start(Router::new().route("/", get(|| async { "ok" })), limits).await;
    served.tasks.begin_stop();
    assert!(served.get("/").await.ends_with("ok"));
    assert!(!served.tasks.finish(Duration::from_millis(10)).await);
    assert!(TcpStream::connect(served.address).await.is_err(), "still listening");
}

#[tokio::test]
async fn a_request_that_outlives_the_grace_period_is_dropped() {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let served = start(slow_router(&begun, &go), ServeLimits::default()).await;
    let mut busy = served.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await;
    begun.notified().await;
    assert!(!served.tasks.finish(Duration::from_millis(10)).await);
    assert_eq!(rest(&mut busy).await, "");
}
