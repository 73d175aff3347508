//! The operations listener: what operators and their machines ask, apart from the public API.
//!
//! A front door of its own, on an address that is not public: `/healthz` (the process lives),
//! `/readyz` (it can serve, and which shards it leads), `/metrics` (Prometheus), `/echo` (answers with what it got: a target
//! for the demo and for canaries). It needs no key, so nothing here tells more than that: no
//! version, no address of a store, no error text.
//!
//! It is served from the first moment on, while stores are still unreachable, and to the last.

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
pub use readiness::{Readiness, Serving};

use crate::runtime::Clock;
use crate::telemetry::metrics::Exporter;

/// The routes of the operations listener; requests of the canary are noted in `arrivals`.
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
