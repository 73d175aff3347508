//! `/metrics`, and the upkeep that bounds the memory of the histograms.

use std::time::Duration;

use async_trait::async_trait;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use crate::domain::Timestamp;
use crate::runtime::{Clock, LoopPause, RunError, Worker};
use crate::telemetry::metrics::Exporter;

/// Answers with all metrics in the Prometheus text format, version 0.0.4.
pub(super) async fn show(State((exporter, clock)): State<(Exporter, Clock)>) -> impl IntoResponse {
    exporter.refresh(clock.now(), clock.monotonic());
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], exporter.render())
}

/// Folds the recorded values of histograms every 5 s. Histograms keep each value until then, even
/// if `/metrics` is never scraped.
pub struct MetricsUpkeep(pub Exporter);

#[async_trait]
impl Worker for MetricsUpkeep {
    async fn run_once(&mut self, _: Timestamp) -> Result<LoopPause, RunError> {
        self.0.upkeep();
        Ok(LoopPause::For(Duration::from_secs(5)))
    }
}
