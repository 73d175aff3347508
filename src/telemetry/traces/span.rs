//! The parts that all spans have in common.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, TraceId};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use crate::domain::Timestamp;

/// Creates a span without a name and a parent.
pub(super) fn empty(context: SpanContext, began_at: Timestamp, ended_at: Timestamp) -> SpanData {
    SpanData {
        span_context: context,
        parent_span_id: SpanId::INVALID,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: "".into(),
        start_time: system_time(began_at),
        // The clocks of two replicas may differ, so the end could be before the start.
        end_time: system_time(ended_at.max(began_at)),
        attributes: Vec::with_capacity(8),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: scope(),
    }
}

/// Creates a context that is sampled.
pub(super) fn kept(trace: TraceId, span: SpanId) -> SpanContext {
    SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::NONE)
}

fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("punctual").with_version(env!("CARGO_PKG_VERSION")).build()
}

fn system_time(at: Timestamp) -> SystemTime {
    let since = Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or(0));
    SystemTime::UNIX_EPOCH + since
}

/// Creates an attribute whose value is the text form of `value`.
pub(super) fn text(name: &'static str, value: &impl ToString) -> KeyValue {
    KeyValue::new(name, value.to_string())
}
