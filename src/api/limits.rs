//! The rate-limit headers, and the error answers for exceeded limits.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::json;

use super::ApiError;
use crate::domain::Timestamp;
use crate::queue::WindowState;

/// The header with the limit of the window that is nearer to exhaustion.
pub(super) const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// The header with the number of calls that are left in that window.
pub(super) const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// The header with the instant at which that window restarts.
pub(super) const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Adds the three rate-limit headers.
pub(super) fn insert_rate_limit_headers(headers: &mut HeaderMap, window: &WindowState) {
    headers.insert(LIMIT, HeaderValue::from(window.window.limit));
    headers.insert(REMAINING, HeaderValue::from(window.remaining));
    if let Ok(reset) = HeaderValue::try_from(window.resets_at.to_string()) {
        headers.insert(RESET, reset);
    }
}

/// The name of the longer window in the details of an error.
pub(super) const HOUR: &str = "hour";

/// Returns the 429 for a caller that has made too many calls.
pub(super) fn exceeded(window: Option<WindowState>, now: Timestamp) -> ApiError {
    let Some(WindowState { window, resets_at, .. }) = window else { return refusal() };
    too_many(window.limit, name(window.span), resets_at, resets_at.since(now))
}

/// Returns the 429 for a call beyond `limit` in a window that ends at `resets_at`, after `wait`.
pub(super) fn too_many(limit: u32, window: &str, resets_at: Timestamp, wait: Duration) -> ApiError {
    let wait = wait.as_millis().div_ceil(1_000).max(1);
    let details = json!({ "limit": limit, "window": window, "resetAt": resets_at });
    refusal().with_details(details).with_retry_after(u64::try_from(wait).unwrap_or(u64::MAX))
}

fn refusal() -> ApiError {
    let status = StatusCode::TOO_MANY_REQUESTS;
    ApiError::new(status, "RATE_LIMIT_EXCEEDED", "Rate limit exceeded")
}

fn name(span: Duration) -> &'static str {
    if span > Duration::from_secs(60) { HOUR } else { "minute" }
}
