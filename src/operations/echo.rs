//! `/echo`: answers with the request that it received.

use axum::Json;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::canary::{self, Arrival, Arrivals};

/// The maximum size of a body that is echoed, in bytes.
const BODY_BYTES: usize = 64 << 10;
/// The number of characters that are kept of a job id or attempt number. An id is shorter.
const MAX_NAME: usize = 32;

/// Answers with `{method, path, query, headers, body}`. A header that occurs several times becomes
/// a list. Bytes that are not UTF-8 are replaced. A body over 64 KiB is answered with 413.
pub(super) async fn echo(State(arrivals): State<Option<Arrivals>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    if let Some(arrivals) = arrivals
        && head.uri.query() == Some(canary::QUERY)
    {
        // If the channel is full, the canary does not check this request for duplicates.
        let _ = arrivals.try_send(arrival(&head.headers));
    }
    let Ok(body) = to_bytes(body, BODY_BYTES).await else {
        return (StatusCode::PAYLOAD_TOO_LARGE, "the body must be at most 64 KiB\n")
            .into_response();
    };
    Json(json!({
        "method": head.method.as_str(),
        "path": head.uri.path(),
        "query": head.uri.query(),
        "headers": headers(&head.headers),
        "body": String::from_utf8_lossy(&body),
    }))
    .into_response()
}

/// Returns the job and the attempt that a canary request names in its headers.
fn arrival(headers: &HeaderMap) -> Arrival {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (job, attempt) = (text("idempotency-key"), text("punctual-attempt"));
    let known = |text: &str| text.chars().take(MAX_NAME).collect::<String>();
    format!("canary {} {}", known(job), known(attempt))
}

fn headers(headers: &HeaderMap) -> Map<String, Value> {
    let value =
        |value: &HeaderValue| Value::from(String::from_utf8_lossy(value.as_bytes()).into_owned());
    let entry = |name: &HeaderName| {
        let mut values: Vec<Value> = headers.get_all(name).iter().map(value).collect();
        let one = values.len() == 1;
        (name.to_string(), if one { values.remove(0) } else { values.into() })
    };
    headers.keys().map(entry).collect()
}
