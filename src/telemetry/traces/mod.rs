//! Traces: spans of jobs and API requests, sent to an OpenTelemetry collector by OTLP over gRPC.
//!
//! Off unless [`start`] was called; then every function here does nothing.
//!
//! A job is a trace. The id of the trace is the id of the job, and the ids of its spans follow from
//! the id of the job, so that every replica that has to do with a job continues its trace without
//! being told of it, and a span that is made twice is the same span. Spans of a job:
//!
//! - the root, `tick`, `trigger` or `retry`: from the instant that the job is for to its record;
//! - `job`, a child of the root: from that instant to the job's final status;
//! - `attempt`, children of `job`: each from its begin to its outcome. The target is told of it by
//!   `traceparent`, so what it does becomes a child of the attempt.
//!
//! An API request is a span of the caller's trace, if it sent `traceparent`, or of one of its own.
//! The roots of jobs that it makes link to it.
//!
//! On failure: a collector that is slow or away costs spans, never time. Spans wait in a queue of
//! bounded length; what does not fit is dropped and counted.

mod exporter;
mod ids;
mod jobs;
mod requests;
mod span;

use std::sync::OnceLock;

use opentelemetry_sdk::trace::SpanData;
use tokio::sync::mpsc;

pub use exporter::{Exporting, Settings, WrongSettings, start};
pub use jobs::{AttemptSpan, JobSpan, MadeSpan, Subject, traceparent};
pub use requests::{RequestEnd, RequestSpan, within};

use crate::domain::JobId;
use crate::telemetry::metrics::{SpanResult, TRACE_SPANS};

/// What makes spans, once [`start`] was called.
static TRACER: OnceLock<Tracer> = OnceLock::new();

#[derive(Debug)]
struct Tracer {
    one_in: u64,
    spans: mpsc::Sender<SpanData>,
}

impl Tracer {
    /// The tracer, if traces are on.
    fn get() -> Option<&'static Self> {
        TRACER.get()
    }

    /// The tracer, if the job's trace is one of those that are kept. All replicas agree on that.
    fn of_job(job: JobId) -> Option<&'static Self> {
        Self::get().filter(|tracer| ids::is_kept(ids::trace_of(job), tracer.one_in))
    }

    fn send(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            TRACE_SPANS.with(SpanResult::Dropped).add(1);
        }
    }
}

/// The id of a job's trace, for the log; absent if it is not traced.
pub fn trace_id(job: JobId) -> Option<impl std::fmt::Display> {
    Tracer::of_job(job).map(|_| ids::trace_of(job))
}
