//! The request of an attempt.

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};

use crate::domain::Timestamp;
use crate::domain::headers::parse_headers;
use crate::domain::outcome::{ErrorCode, Failure};
use crate::domain::schedule::HttpMethod;
use crate::domain::signing::{ID_HEADER, SIGNATURE_HEADER, Signature, TIMESTAMP_HEADER};
use crate::outbound::Request;
use crate::store::Claimed;
use crate::telemetry::traces;

/// The `User-Agent` of the service.
const AGENT: &str = concat!("Punctual/", env!("CARGO_PKG_VERSION"));
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const SCHEDULE_ID: HeaderName = HeaderName::from_static("punctual-schedule-id");
const JOB_ID: HeaderName = HeaderName::from_static("punctual-job-id");
const SCHEDULED_AT: HeaderName = HeaderName::from_static("punctual-scheduled-at");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const ATTEMPT: HeaderName = HeaderName::from_static("punctual-attempt");

/// Builds the request of a claimed attempt. The user's values of `User-Agent`, `Idempotency-Key`,
/// `traceparent` and `Content-Type` win. Users cannot set the service's own headers, and a
/// signature replaces signature headers that users set.
pub(in super::super) fn build(claimed: &Claimed, now: Timestamp) -> Result<Request, Failure> {
    let definition = &claimed.definition;
    let given = definition.headers.as_deref().map(parse_headers).transpose();
    let mut headers = given.map_err(|_| unreadable("headers"))?.unwrap_or_default();
    let body = definition.body.clone().filter(|_| definition.http_method != HttpMethod::Get);
    if let Some(body) = &body {
        headers.entry(CONTENT_TYPE).or_insert_with(|| content_type(body));
    }
    add_own(&mut headers, claimed)?;
    add_signature(&mut headers, claimed, now, body.as_deref().unwrap_or_default())?;
    Ok(Request {
        method: method(definition.http_method),
        url: definition.endpoint.clone(),
        headers,
        body: body.map(Into::into),
    })
}

fn add_own(headers: &mut HeaderMap, claimed: &Claimed) -> Result<(), Failure> {
    let value = |text: String| HeaderValue::try_from(text).map_err(|_| unreadable("identity"));
    let job = value(claimed.job.to_string())?;
    headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
    headers.entry(IDEMPOTENCY_KEY).or_insert_with(|| job.clone());
    headers.insert(SCHEDULE_ID, value(claimed.schedule.to_string())?);
    headers.insert(JOB_ID, job);
    headers.insert(SCHEDULED_AT, value(claimed.job.timestamp().to_string())?);
    if let Some(parent) = traces::traceparent(claimed.job, claimed.attempt) {
        headers.entry(TRACEPARENT).or_insert(parent);
    }
    headers.insert(ATTEMPT, HeaderValue::from(u16::from(claimed.attempt)));
    Ok(())
}

/// Signs exactly the bytes that are sent.
fn add_signature(
    headers: &mut HeaderMap,
    claimed: &Claimed,
    now: Timestamp,
    body: &str,
) -> Result<(), Failure> {
    if !claimed.definition.sign_requests {
        return Ok(());
    }
    let id = claimed.job.to_string();
    let Signature { timestamp, signatures } =
        Signature::new(&claimed.signing_secrets, &id, now, body.as_bytes());
    for (name, value) in
        [(ID_HEADER, id), (TIMESTAMP_HEADER, timestamp), (SIGNATURE_HEADER, signatures)]
    {
        let value = HeaderValue::try_from(value).map_err(|_| unreadable("identity"))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(())
}

fn content_type(body: &str) -> HeaderValue {
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(body).is_ok();
    HeaderValue::from_static(if is_json { "application/json" } else { "text/plain; charset=utf-8" })
}

fn method(method: HttpMethod) -> http::Method {
    match method {
        HttpMethod::Get => http::Method::GET,
        HttpMethod::Post => http::Method::POST,
        HttpMethod::Put => http::Method::PUT,
        HttpMethod::Delete => http::Method::DELETE,
        HttpMethod::Patch => http::Method::PATCH,
    }
}

/// Returns the failure of a request that cannot be built. Definitions are checked before they are
/// stored, so this happens only in a release with stricter rules than the one that stored the
/// definition.
fn unreadable(part: &str) -> Failure {
    let message =
        format!("the stored {part} of the request are no longer valid; save the schedule again");
    Failure { code: ErrorCode::Internal, message, retryable: false }
}
