//! What is put around the library's connecting: a limit, and how long it took.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tower::{BoxError, Layer, Service, ServiceExt};

use super::failure::{self, Stopped};
use super::trace::{self, Phase};
use crate::runtime::Clock;

/// The longest that resolving, connecting and the TLS handshake may take together, also bounded
/// by three quarters of what is left of the attempt: so a host that does not take a connection is
/// reported as such, and not as one that answers slowly.
pub const LONGEST_CONNECT: Duration = Duration::from_secs(10);

/// Puts the limit around a connector.
#[derive(Clone)]
pub struct Limit {
    /// The clock to limit and measure by.
    pub clock: Clock,
}

/// A connector with a limit. The library clones it several times for each request, so that has to
/// cost little.
#[derive(Clone)]
pub struct Limited<S> {
    connector: Arc<S>,
    clock: Clock,
}

impl<S> Layer<S> for Limit {
    type Service = Limited<S>;

    fn layer(&self, connector: S) -> Limited<S> {
        Limited { connector: Arc::new(connector), clock: self.clock.clone() }
    }
}

impl<S, Target> Service<Target> for Limited<S>
where
    S: Service<Target, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send + 'static,
    Target: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // The connector of the call is waited for there.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Target) -> Self::Future {
        let clock = self.clock.clone();
        let started = clock.monotonic();
        let left = trace::note(|trace| {
            // The resolver steps in first if there is a name to resolve.
            trace.enter(Phase::Connect);
            trace.deadline.saturating_sub(started)
        });
        let limit = left.map_or(LONGEST_CONNECT, |left| LONGEST_CONNECT.min(left * 3 / 4));
        let connecting = S::clone(&self.connector).oneshot(target);
        Box::pin(async move {
            let connected = tokio::select! {
                biased;
                connected = connecting => connected,
                () = clock.sleep(limit) => Err(Stopped(too_slow(limit)).into()),
            };
            let now = clock.monotonic();
            trace::note(|trace| {
                trace.connected(now, now.saturating_sub(started));
                if connected.is_ok() {
                    trace.enter(Phase::Response);
                }
            });
            connected
        })
    }
}

fn too_slow(limit: Duration) -> crate::domain::outcome::Failure {
    match trace::note(trace::Trace::phase) {
        Some(Phase::Handshake) => failure::slow_handshake(limit),
        _ => failure::slow_connect(limit),
    }
}
