//! A layer around the HTTP library's connector: it limits the connect time, measures it, and
//! refuses the new connection to a request that may no longer be sent.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tower::{BoxError, Layer, Service, ServiceExt};

use super::failure::{self, StoppedRequest};
use super::trace::{self, Phase, Trace};
use crate::runtime::Clock;

/// The maximum time for DNS lookup, connect and TLS handshake together. It is also bounded by three
/// quarters of the attempt's remaining time. An unreachable host is therefore reported as a connect
/// failure and not as a slow response.
pub const MAX_CONNECT: Duration = Duration::from_secs(10);

/// The layer that adds the limit to a connector.
#[derive(Clone)]
pub struct ConnectionLimit {
    /// The clock for the limit and the measurement.
    pub clock: Clock,
}

/// A connector with a time limit. The library clones it several times for each request, so a clone
/// must be cheap.
#[derive(Clone)]
pub struct TimeLimited<S> {
    connector: Arc<S>,
    clock: Clock,
}

impl<S> Layer<S> for ConnectionLimit {
    type Service = TimeLimited<S>;

    fn layer(&self, connector: S) -> TimeLimited<S> {
        TimeLimited { connector: Arc::new(connector), clock: self.clock.clone() }
    }
}

impl<S, Target> Service<Target> for TimeLimited<S>
where
    S: Service<Target, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send + 'static,
    Target: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // `call` waits until its own clone of the connector is ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Target) -> Self::Future {
        let clock = self.clock.clone();
        let started = clock.monotonic();
        let left = trace::note(|trace| {
            // If there is a name to resolve, the resolver overwrites this phase.
            trace.enter(Phase::Connect);
            trace.deadline.saturating_sub(started)
        });
        let limit = left.map_or(MAX_CONNECT, |left| MAX_CONNECT.min(left * 3 / 4));
        let connecting = S::clone(&self.connector).oneshot(target);
        Box::pin(async move {
            let connected = tokio::select! {
                biased;
                connected = connecting => connected,
                () = clock.sleep(limit) => Err(StoppedRequest(too_slow(limit)).into()),
            };
            let now = clock.monotonic();
            trace::note(|trace| {
                trace.connected(now, now.saturating_sub(started));
                if connected.is_ok() {
                    trace.enter(Phase::Response);
                }
            });
            // The last moment before the library writes the request. A failure to connect stays as
            // it is: it writes nothing.
            if connected.is_ok() && trace::note(Trace::may_send) == Some(false) {
                return Err(StoppedRequest(failure::held_up()).into());
            }
            connected
        })
    }
}

fn too_slow(limit: Duration) -> crate::domain::outcome::Failure {
    match trace::note(Trace::phase) {
        Some(Phase::Handshake) => failure::slow_handshake(limit),
        _ => failure::slow_connect(limit),
    }
}
