//! Serves HTTP/1.1 to clients that may be slow, numerous or hostile.
//!
//! This module limits the damage that one client can do to the others: the time to send headers or
//! to take a response, the size of headers, and the number of connections. The router limits the
//! time for a request body and for a response.
//!
//! On the first stage of a stop the listener continues to accept for `drain`, so that a load
//! balancer can notice the stop. Then it closes. Idle connections are closed, and the others finish
//! their current request. If accepting fails, for example because of too many open files, the
//! listener waits and retries.

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

/// The limits of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeLimits {
    /// The maximum number of open connections; further clients wait to be accepted.
    pub connections: usize,
    /// The maximum time to receive the headers of the next request, including the idle time between
    /// two requests.
    pub header_read: Duration,
    /// The maximum time in which a client takes no byte of a response.
    pub write_stall: Duration,
    /// The maximum size of a request's headers in bytes, including the request line.
    pub header_bytes: usize,
    /// The time for which the listener continues to accept after the first stage of a stop has
    /// begun.
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

/// The pause of accepting after an error that is not specific to one client.
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
    let connections = ListenerState {
        tasks: tasks.clone(),
        clock: clock.clone(),
        // This prepares the router once instead of for every request.
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

async fn accept(listener: &TcpListener, connections: &ListenerState, clock: &Clock) {
    let permits = Arc::new(Semaphore::new(connections.limits.connections));
    let mut failing = false;
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
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

/// Returns `true` if an error of accepting only means that the client has disconnected.
fn is_one_clients(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// The state that all connections of a listener share.
struct ListenerState {
    tasks: Tasks,
    clock: Clock,
    router: Router,
    limits: ServeLimits,
    closing: CancellationToken,
}

impl ListenerState {
    fn spawn(&self, stream: TcpStream, peer: SocketAddr, permit: OwnedSemaphorePermit) {
        // Responses are written whole: waiting to fill a packet would only delay them. A failure
        // means that the peer has disconnected, which the next read reports, too.
        let _ = stream.set_nodelay(true);
        let stream = NoStall::new(stream, self.clock.clone(), self.limits.write_stall);
        let (router, limits, closing) = (self.router.clone(), self.limits, self.closing.clone());
        self.tasks.spawn(TaskKind::Connection, async move {
            let _open = (permit, CONNECTIONS_OPEN.hold());
            converse(stream, peer, router, limits, &closing).await;
        });
    }
}

/// Serves one connection until it ends.
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
        // The cause is the client or its network.
        tracing::debug!(%peer, %error, "connection ended early");
    }
}
