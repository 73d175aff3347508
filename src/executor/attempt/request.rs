//! The request of an attempt.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::domain::Timestamp;
use crate::domain::outcome::Failure;
use crate::outbound::{self, Request};
use crate::store::ClaimedJob;
use crate::telemetry::traces;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const SCHEDULE_ID: HeaderName = HeaderName::from_static("punctual-schedule-id");
const JOB_ID: HeaderName = HeaderName::from_static("punctual-job-id");
const SCHEDULED_AT: HeaderName = HeaderName::from_static("punctual-scheduled-at");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const ATTEMPT: HeaderName = HeaderName::from_static("punctual-attempt");

/// Builds the request of a claimed attempt. The user's values of `Idempotency-Key` and
/// `traceparent` win. Users cannot set the service's own headers.
pub(in crate::executor) fn build(claimed: &ClaimedJob, now: Timestamp) -> Result<Request, Failure> {
    let mut request = Request::of(&claimed.definition)?;
    add_own(&mut request.headers, claimed)?;
    if claimed.definition.sign_requests {
        request.sign(&claimed.signing_secrets, &claimed.job.to_string(), now);
    }
    Ok(request)
}

fn add_own(headers: &mut HeaderMap, claimed: &ClaimedJob) -> Result<(), Failure> {
    let invalid = |_| outbound::invalid_definition("identity");
    let value = |text: String| HeaderValue::try_from(text).map_err(invalid);
    let job = value(claimed.job.to_string())?;
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
