//! What callers are told of the rate limits.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::json;

use super::ApiError;
use crate::domain::Timestamp;
use crate::queue::Standing;

/// The ceiling of the window that is nearer to exhaustion.
pub(super) const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// How many calls are left in it.
pub(super) const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// When it begins anew.
pub(super) const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Adds the three headers.
pub(super) fn tell(headers: &mut HeaderMap, standing: &Standing) {
    headers.insert(LIMIT, HeaderValue::from(standing.window.limit));
    headers.insert(REMAINING, HeaderValue::from(standing.remaining));
    if let Ok(reset) = HeaderValue::try_from(standing.resets_at.to_string()) {
        headers.insert(RESET, reset);
    }
}

/// The refusal of a caller who has made too many calls.
pub(super) fn exceeded(standing: Option<Standing>, now: Timestamp) -> ApiError {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let error = ApiError::new(status, "RATE_LIMIT_EXCEEDED", "Rate limit exceeded");
    let Some(standing) = standing else { return error };
    let wait = standing.resets_at.since(now).as_millis().div_ceil(1_000).max(1);
    let details = json!({
        "limit": standing.window.limit,
        "window": name(standing.window.span),
        "resetAt": standing.resets_at,
    });
    error.with_details(details).with_retry_after(u64::try_from(wait).unwrap_or(u64::MAX))
}

fn name(span: Duration) -> &'static str {
    if span > Duration::from_secs(60) { "hour" } else { "minute" }
}
