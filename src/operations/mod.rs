//! The operations listener: endpoints for operators and their tools, separate from the public API.
//!
//! It has its own address, which is not public. It serves `/healthz` (the process is alive),
//! `/readyz` (the replica can serve requests, and which shards it leads), `/metrics` (Prometheus)
//! and `/echo` (answers with the request that it received: a target for the demo and for canaries).
//! It needs no key, so its answers contain no address of a store and no error text.
//!
//! It serves from the start of the process, while stores are still unreachable, to the very end.

pub mod canary;
mod echo;
mod metrics;
mod readiness;

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{any, get};

use canary::Arrivals;
pub use metrics::MetricsUpkeep;
pub use readiness::{Readiness, ReadinessSources};

use crate::runtime::Clock;
use crate::telemetry::metrics::Exporter;

/// Returns the routes of the operations listener. `/echo` reports canary requests to `arrivals`.
pub fn router(
    readiness: Arc<Readiness>,
    exporter: Exporter,
    clock: Clock,
    arrivals: Option<Arrivals>,
) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readiness::readyz).with_state(readiness))
        .route("/metrics", get(metrics::show).with_state((exporter, clock)))
        .route("/echo", any(echo::echo).with_state(arrivals))
        .fallback(|| async { (StatusCode::NOT_FOUND, "not found\n") })
}

#[cfg(test)]
mod tests;
