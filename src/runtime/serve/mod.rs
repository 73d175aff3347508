//! Serves HTTP/1.1 to clients who may be slow, many or hostile.
//!
//! What one client can do to the others is bounded here: how long it may take to send headers or
//! to take an answer, how large headers are, how many connections there are. How long a body and
//! an answer may take is the router's business.
//!
//! On the first stage of a stop the listener goes on for `drain`, so that a load balancer can
//! notice; then it closes, idle connections are closed and the others finish the request they
//! have. Trouble with accepting, such as too many open files, is waited out.

mod stall;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::{Clock, TaskKind, Tasks};
use crate::telemetry::metrics::{ACCEPT_ERRORS, CONNECTIONS_OPEN};
use stall::NoStall;

/// What a listener takes from its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeLimits {
    /// How many connections there may be at once; further clients wait to be accepted.
    pub connections: usize,
    /// How long a client may take to send the headers of its next request, the wait between two
    /// requests included.
    pub header_read: Duration,
    /// How long a client may take none of an answer.
    pub write_stall: Duration,
    /// The size of a request's headers, its first line included.
    pub header_bytes: usize,
    /// How long to go on accepting after the first stage of a stop has begun.
    pub drain: Duration,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            header_read: Duration::from_secs(20),
            write_stall: Duration::from_secs(30),
            header_bytes: 32 << 10,
            drain: Duration::ZERO,
        }
    }
}

/// How long accepting pauses after an error that is not one client's.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Serves `router` on `listener` until the process stops.
///
/// Each request carries `ConnectInfo<SocketAddr>`, the address of its peer, as an extension.
pub fn serve(
    tasks: &Tasks,
    clock: &Clock,
    listener: TcpListener,
    router: Router,
    limits: ServeLimits,
) {
    let closing = CancellationToken::new();
    let connections = Connections {
        tasks: tasks.clone(),
        clock: clock.clone(),
        // Does once what would be done for every request.
        router: router.with_state(()),
        limits,
        closing: closing.clone(),
    };
    let (stopping, clock) = (tasks.stopping().clone(), clock.clone());
    tasks.spawn(TaskKind::Listener, async move {
        let _closing = closing.drop_guard();
        let drained = async {
            stopping.cancelled().await;
            clock.sleep(limits.drain).await;
        };
        tokio::select! {
            () = drained => {}
            () = accept(&listener, &connections, &clock) => {}
        }
    });
}

async fn accept(listener: &TcpListener, connections: &Connections, clock: &Clock) {
    let room = Arc::new(Semaphore::new(connections.limits.connections));
    let mut failing = false;
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                if std::mem::take(&mut failing) {
                    tracing::info!("accepting connections again");
                }
                connections.spawn(stream, peer, permit);
            }
            Err(error) if is_one_clients(&error) => {}
            Err(error) => {
                ACCEPT_ERRORS.add(1);
                if !std::mem::replace(&mut failing, true) {
                    tracing::error!(%error, "cannot accept connections, trying again");
                }
                clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether an error of accepting only says that the client has gone.
fn is_one_clients(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// What all connections of a listener have in common.
struct Connections {
    tasks: Tasks,
    clock: Clock,
    router: Router,
    limits: ServeLimits,
    closing: CancellationToken,
}

impl Connections {
    fn spawn(&self, stream: TcpStream, peer: SocketAddr, permit: OwnedSemaphorePermit) {
        // Answers are written whole: waiting to fill a packet would only delay them. A failure
        // means that the peer has gone, which reading finds out too.
        let _ = stream.set_nodelay(true);
        let stream = NoStall::new(stream, self.clock.clone(), self.limits.write_stall);
        let (router, limits, closing) = (self.router.clone(), self.limits, self.closing.clone());
        self.tasks.spawn(TaskKind::Connection, async move {
            let _open = (permit, CONNECTIONS_OPEN.hold());
            converse(stream, peer, router, limits, &closing).await;
        });
    }
}

/// Serves one connection to its end.
async fn converse(
    stream: NoStall<TcpStream>,
    peer: SocketAddr,
    router: Router,
    limits: ServeLimits,
    closing: &CancellationToken,
) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer));
        router.clone().call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_read)
        .max_header_size(limits.header_bytes)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // The client's doing, or its network's.
        tracing::debug!(%peer, %error, "connection ended early");
    }
}
