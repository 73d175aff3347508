//! The spans of a job.

use http::HeaderValue;
use opentelemetry::KeyValue;
use opentelemetry::trace::{Link, SpanKind, Status};
use opentelemetry_sdk::trace::SpanData;
use url::Url;

use super::ids::{TracePart, span_of, trace_of};
use super::span::{empty, kept, text};
use super::{Tracer, requests};
use crate::domain::job::{JobStatus, Trigger};
use crate::domain::outcome::{ErrorCode, Exchange};
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp};

/// The job that a span describes.
#[derive(Clone, Copy, Debug)]
pub struct JobSubject {
    /// The job.
    pub job: JobId,
    /// The schedule of the job, if it is known.
    pub schedule: Option<ScheduleId>,
    /// The account of the job, if it is known.
    pub account: Option<AccountId>,
}

/// The creation of a job, which is the root of its trace.
#[derive(Clone, Copy, Debug)]
pub struct MadeSpan {
    /// The job.
    pub subject: JobSubject,
    /// The trigger of the job.
    pub trigger: Trigger,
    /// The instant at which the creation was recorded.
    pub recorded_at: Timestamp,
}

impl MadeSpan {
    /// Emits the span, if the job is traced.
    pub fn end(self) {
        let Self { subject, trigger, recorded_at } = self;
        let Some(tracer) = Tracer::of_job(subject.job) else { return };
        let mut span = new(subject, TracePart::Root, subject.job.timestamp(), recorded_at);
        span.name = match trigger {
            Trigger::Schedule | Trigger::CatchUp => "tick",
            Trigger::Manual => "trigger",
            Trigger::Retry => "retry",
        }
        .into();
        span.span_kind = SpanKind::Producer;
        span.attributes.push(text("punctual.trigger", &trigger));
        if let Some(request) = requests::current() {
            span.links.links.push(Link::with_context(request));
        }
        tracer.send(span);
    }
}

/// A job that has ended.
#[derive(Clone, Copy, Debug)]
pub struct JobSpan {
    /// The job.
    pub subject: JobSubject,
    /// The number of attempts that the job had.
    pub attempts: u8,
    /// Its final status.
    pub status: JobStatus,
    /// The error code, if the job failed.
    pub error: Option<ErrorCode>,
    /// The instant at which the job ended.
    pub ended_at: Timestamp,
}

impl JobSpan {
    /// Emits the span, if the job is traced.
    pub fn end(self) {
        let Self { subject, attempts, status, error, ended_at } = self;
        let Some(tracer) = Tracer::of_job(subject.job) else { return };
        let mut span = new(subject, TracePart::Job, subject.job.timestamp(), ended_at);
        span.parent_span_id = span_of(subject.job, TracePart::Root);
        span.name = "job".into();
        span.attributes.push(text("punctual.status", &status));
        span.attributes.push(KeyValue::new("punctual.attempts", i64::from(attempts)));
        fail(&mut span, error);
        tracer.send(span);
    }
}

/// An attempt that has ended.
#[derive(Clone, Copy, Debug)]
pub struct AttemptSpan<'a> {
    /// The job.
    pub subject: JobSubject,
    /// The number of the attempt, counted from 1.
    pub attempt: u8,
    /// The method of its request.
    pub method: &'static str,
    /// The URL of the target. Only host and port are exported, because paths may contain secrets.
    pub endpoint: &'a str,
    /// The instant at which the attempt began.
    pub began_at: Timestamp,
    /// The instant at which the attempt ended.
    pub ended_at: Timestamp,
    /// The exchange with the target, unless the attempt was aborted.
    pub exchange: Option<&'a Exchange>,
    /// The error code, if the attempt failed.
    pub error: Option<ErrorCode>,
}

impl AttemptSpan<'_> {
    /// Emits the span, if the job is traced.
    pub fn end(self) {
        let Some(tracer) = Tracer::of_job(self.subject.job) else { return };
        let JobSubject { job, .. } = self.subject;
        let part = TracePart::Attempt(self.attempt);
        let mut span = new(self.subject, part, self.began_at, self.ended_at);
        span.parent_span_id = span_of(job, TracePart::Job);
        span.name = "attempt".into();
        span.span_kind = SpanKind::Client;
        span.attributes.push(KeyValue::new("punctual.attempt", i64::from(self.attempt)));
        span.attributes.push(KeyValue::new("http.request.method", self.method));
        if let Ok(url) = Url::parse(self.endpoint) {
            let host = url.host_str().map(|host| text("server.address", &host));
            let port = url.port_or_known_default();
            let port = port.map(|port| KeyValue::new("server.port", i64::from(port)));
            span.attributes.extend(host.into_iter().chain(port));
        }
        if let Some(exchange) = self.exchange {
            span.attributes.extend(answered(exchange));
        }
        fail(&mut span, self.error);
        tracer.send(span);
    }
}

/// Returns attributes with the status of the response and the timings.
fn answered(exchange: &Exchange) -> impl Iterator<Item = KeyValue> {
    let status = exchange.result.as_ref().ok().map(|response| i64::from(response.status));
    let timings = exchange.timings;
    let numbers = [
        ("http.response.status_code", status),
        ("punctual.dns_ms", timings.dns_ms.map(i64::from)),
        ("punctual.connect_ms", timings.connect_ms.map(i64::from)),
        ("punctual.first_byte_ms", timings.first_byte_ms.map(i64::from)),
        ("punctual.body_ms", timings.body_ms.map(i64::from)),
    ];
    numbers.into_iter().filter_map(|(name, number)| Some(KeyValue::new(name, number?)))
}

/// Returns the value of the `traceparent` header (W3C Trace Context) that the target of an attempt
/// receives, or `None` if the job is not traced.
pub fn traceparent(job: JobId, attempt: u8) -> Option<HeaderValue> {
    Tracer::of_job(job)?;
    let span = span_of(job, TracePart::Attempt(attempt));
    let value = format!("00-{}-{span}-01", trace_of(job));
    Some(HeaderValue::try_from(value).expect("hexadecimal digits are allowed in headers"))
}

fn new(subject: JobSubject, part: TracePart, began_at: Timestamp, ended_at: Timestamp) -> SpanData {
    let JobSubject { job, schedule, account } = subject;
    let context = kept(trace_of(job), span_of(job, part));
    let mut span = empty(context, began_at, ended_at);
    span.attributes.push(text("punctual.job.id", &job));
    span.attributes.extend(schedule.map(|id| text("punctual.schedule.id", &id)));
    span.attributes.extend(account.map(|id| text("punctual.account.id", &id)));
    span
}

fn fail(span: &mut SpanData, error: Option<ErrorCode>) {
    let Some(error) = error else { return };
    span.attributes.push(KeyValue::new("error.type", error.as_str()));
    span.status = Status::error(error.as_str());
}
