//! The spans of API requests.

use std::future::Future;

use http::{HeaderMap, Method, StatusCode};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceContextExt};
use opentelemetry::{Context, KeyValue, TraceId};
use opentelemetry_sdk::propagation::TraceContextPropagator;

use super::Tracer;
use super::ids::is_kept;
use super::span::{empty, kept, text};
use crate::domain::{AccountId, Timestamp};

tokio::task_local! {
    /// The span of the request that this task handles.
    static CURRENT: SpanContext;
}

/// The span of a request that is being handled.
#[derive(Debug)]
pub struct RequestSpan {
    context: SpanContext,
    parent: SpanId,
    began_at: Timestamp,
}

/// The result of a request.
#[derive(Debug)]
pub struct RequestEnd<'a> {
    /// Its method.
    pub method: &'a Method,
    /// The route template of its path.
    pub route: &'a str,
    /// The status of its response.
    pub status: StatusCode,
    /// The account that made the request.
    pub account: AccountId,
    /// The request id, as in the log and in the response.
    pub request_id: &'a str,
    /// The instant at which the response was ready.
    pub ended_at: Timestamp,
}

impl RequestSpan {
    /// Begins the span of a request with these headers. Returns `None` if the request is not
    /// traced. If the caller sent a trace, its sampling flag decides. Otherwise a new trace begins,
    /// whose id comes from `random` and decides.
    pub fn begin(
        headers: &HeaderMap,
        began_at: Timestamp,
        random: impl Fn() -> u128,
    ) -> Option<Self> {
        let tracer = Tracer::get()?;
        let context = TraceContextPropagator::new();
        let context = context.extract_with_context(&Context::new(), &ExportHeaders(headers));
        let caller = context.span().span_context().clone();
        let (trace, parent, is_kept) = if caller.is_valid() {
            (caller.trace_id(), caller.span_id(), caller.is_sampled())
        } else {
            let trace = TraceId::from_bytes(random().to_be_bytes());
            (trace, SpanId::INVALID, is_kept(trace, tracer.one_in))
        };
        let id = random().to_be_bytes();
        let own = SpanId::from_bytes(*id.first_chunk().expect("it has 16 bytes"));
        if !is_kept {
            return None;
        }
        Some(Self { context: kept(trace, own), parent, began_at })
    }

    /// Returns the id of its trace, for the log.
    pub fn trace_id(&self) -> impl std::fmt::Display {
        self.context.trace_id()
    }

    /// Emits the span.
    pub fn end(self, end: &RequestEnd<'_>) {
        let Self { context, parent, began_at } = self;
        let Some(tracer) = Tracer::get() else { return };
        let mut span = empty(context, began_at, end.ended_at);
        span.parent_span_is_remote = parent != SpanId::INVALID;
        span.parent_span_id = parent;
        span.name = format!("{} {}", end.method, end.route).into();
        span.span_kind = SpanKind::Server;
        span.attributes.extend([
            text("http.request.method", &end.method),
            text("http.route", &end.route),
            KeyValue::new("http.response.status_code", i64::from(end.status.as_u16())),
            text("punctual.account.id", &end.account),
            text("punctual.request.id", &end.request_id),
        ]);
        if end.status.is_server_error() {
            span.attributes.push(text("error.type", &end.status.as_u16()));
            span.status = Status::error("");
        }
        tracer.send(span);
    }
}

/// Runs `answer` with `span` as the current span of its task.
pub async fn within<T>(span: Option<&RequestSpan>, answer: impl Future<Output = T>) -> T {
    match span {
        Some(span) => CURRENT.scope(span.context.clone(), answer).await,
        None => answer.await,
    }
}

/// Returns the span of the request that this task handles.
pub(super) fn current() -> Option<SpanContext> {
    CURRENT.try_with(SpanContext::clone).ok()
}

struct ExportHeaders<'a>(&'a HeaderMap);

impl Extractor for ExportHeaders<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}
