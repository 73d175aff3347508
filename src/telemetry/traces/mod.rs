//! Traces: spans of jobs and API requests, exported to an OpenTelemetry collector by OTLP over
//! gRPC.
//!
//! Tracing is off until [`start`] is called. Until then every function here does nothing.
//!
//! Each job is a trace. The id of the trace is the id of the job, and the ids of its spans are
//! derived from the id of the job. Every replica that handles the job can therefore continue its
//! trace without any exchange, and a span that is emitted twice has the same id. The spans of a
//! job:
//!
//! - The root, named `tick`, `trigger` or `retry`, lasts from the instant of the job to its record.
//! - `job`, a child of the root, lasts from that instant to the final status of the job.
//! - `attempt`, a child of `job`, lasts from the start of an attempt to its outcome. The target
//!   receives its id in `traceparent`, so spans of the target become children of the attempt.
//!
//! An API request is a span of the caller's trace if the caller sent `traceparent`, and of a new
//! trace otherwise. The root spans of jobs that the request creates link to it.
//!
//! On failure: a slow or unreachable collector costs spans but never time. Spans wait in a bounded
//! queue. Spans that do not fit are dropped and counted.

mod exporter;
mod ids;
mod jobs;
mod requests;
mod span;

use std::sync::OnceLock;

use opentelemetry_sdk::trace::SpanData;
use tokio::sync::mpsc;

pub use exporter::{Exporting, TraceSettings, WrongSettings, start};
pub use jobs::{AttemptSpan, JobSpan, JobSubject, MadeSpan, traceparent};
pub use requests::{RequestEnd, RequestSpan, within};

use crate::domain::JobId;
use crate::telemetry::metrics::{SpanResult, TRACE_SPANS};

/// The tracer, set by [`start`].
static TRACER: OnceLock<Tracer> = OnceLock::new();

#[derive(Debug)]
struct Tracer {
    one_in: u64,
    spans: mpsc::Sender<SpanData>,
}

impl Tracer {
    /// Returns the tracer, if tracing is on.
    fn get() -> Option<&'static Self> {
        TRACER.get()
    }

    /// Returns the tracer, if the trace of this job is sampled. All replicas decide alike.
    fn of_job(job: JobId) -> Option<&'static Self> {
        Self::get().filter(|tracer| ids::is_kept(ids::trace_of(job), tracer.one_in))
    }

    fn send(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            TRACE_SPANS.with(SpanResult::Dropped).add(1);
        }
    }
}

/// Returns the id of a job's trace for the log, or `None` if the job is not traced.
pub fn trace_id(job: JobId) -> Option<impl std::fmt::Display> {
    Tracer::of_job(job).map(|_| ids::trace_of(job))
}
