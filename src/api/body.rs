//! Request bodies: read up to a limit, and drained if the handler does not read them.
//!
//! A client that is still sending when its connection closes may never see the answer. Therefore
//! the unread rest of a body is read and discarded while the answer is sent, within bounds, before
//! the connection closes or is reused.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequestParts, Request};
use axum::middleware::Next;
use axum::response::Response;
use http::request::Parts;
use http::{Extensions, HeaderMap, header};
use http_body_util::BodyExt;

use super::ApiError;
use crate::runtime::{Clock, Mutex, TaskKind, Tasks};

/// The maximum body size of most routes, in bytes.
pub(super) const USUAL_LIMIT: usize = 1 << 20;
/// The maximum body size of bulk creation, in bytes.
pub(super) const BULK_LIMIT: usize = 16 << 20;

/// The maximum number of bytes that a drain reads.
const DRAIN_BYTES: usize = 32 << 20;
/// The maximum duration of a drain.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// A body that may not have been read yet, shared between the outermost layer and the route.
#[derive(Clone)]
pub(super) struct UnreadBody(Arc<Mutex<Option<Body>>>);

impl UnreadBody {
    /// Takes the body out of a request. Returns `None` if it is empty.
    pub(super) fn take_from(request: &mut Request) -> Option<Self> {
        if request.body().is_end_stream() {
            return None;
        }
        let unread = Self::of(std::mem::take(request.body_mut()));
        request.extensions_mut().insert(unread.clone());
        Some(unread)
    }

    fn of(body: Body) -> Self {
        Self(Arc::new(Mutex::new(Some(body))))
    }

    /// Returns `true` if the body announces a size above `limit`.
    pub(super) fn exceeds(&self, limit: usize) -> bool {
        let body = self.0.lock();
        body.as_ref().is_some_and(|body| announced(body) > limit)
    }

    /// Reads and discards the unread rest of the body in a task of its own.
    pub(super) fn drain(&self, tasks: &Tasks, clock: &Clock) {
        let Some(mut body) = self.take() else { return };
        let clock = clock.clone();
        tasks.spawn(TaskKind::Connection, async move {
            let drain = async {
                let mut left = DRAIN_BYTES;
                while let Some(Ok(frame)) = body.frame().await {
                    let read = frame.data_ref().map_or(0, Bytes::len);
                    match left.checked_sub(read) {
                        Some(rest) => left = rest,
                        None => break,
                    }
                }
            };
            tokio::select! {
                () = drain => {}
                () = clock.sleep(DRAIN_TIME) => {}
            }
        });
    }

    fn take(&self) -> Option<Body> {
        self.0.lock().take()
    }

    fn put_back(&self, body: Body) {
        *self.0.lock() = Some(body);
    }
}

/// A JSON body of at most 1 MiB, as bytes.
pub(super) struct JsonBody(pub(super) Bytes);

/// A JSON body of at most 16 MiB, as bytes.
pub(super) struct BulkBody(pub(super) Bytes);

impl<S: Sync> FromRequestParts<S> for JsonBody {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        read(parts, USUAL_LIMIT).await.map(Self)
    }
}

impl<S: Sync> FromRequestParts<S> for BulkBody {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        read(parts, BULK_LIMIT).await.map(Self)
    }
}

/// Gives the body to a route beside the API, which reads it by itself.
pub(super) async fn give_back(mut request: Request, next: Next) -> Response {
    let unread = request.extensions_mut().remove::<UnreadBody>();
    if let Some(body) = unread.and_then(|unread| unread.take()) {
        *request.body_mut() = body;
    }
    next.run(request).await
}

fn announced(body: &Body) -> usize {
    usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX)
}

async fn read(parts: &Parts, limit: usize) -> Result<Bytes, ApiError> {
    check_type(&parts.headers)?;
    take(&parts.extensions, limit).await
}

/// Reads a body and leaves a copy for the route. The outermost layer does not share the copy,
/// because it may end before the route does.
pub(super) async fn read_and_keep(
    extensions: &mut Extensions,
    limit: usize,
) -> Result<Bytes, ApiError> {
    let bytes = take(extensions, limit).await?;
    if extensions.get::<UnreadBody>().is_some() {
        extensions.insert(UnreadBody::of(Body::from(bytes.clone())));
    }
    Ok(bytes)
}

async fn take(extensions: &Extensions, limit: usize) -> Result<Bytes, ApiError> {
    let Some(unread) = extensions.get::<UnreadBody>() else { return Ok(Bytes::new()) };
    let Some(mut body) = unread.take() else { return Ok(Bytes::new()) };
    let mut bytes = Vec::with_capacity(announced(&body).min(limit));
    while let Some(frame) = body.frame().await {
        // The connection broke or its framing is invalid. The client may not receive the answer.
        let frame = frame.map_err(|_| ApiError::invalid_form("Incomplete request body"))?;
        let Ok(chunk) = frame.into_data() else { continue };
        if bytes.len() + chunk.len() > limit {
            unread.put_back(body);
            return Err(ApiError::too_large(limit));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.into())
}

/// Checks that the headers declare plain JSON. A missing content type counts as JSON.
fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let plain = |encoding: &&[u8]| encoding.trim_ascii().eq_ignore_ascii_case(b"identity");
    let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter().map(|e| e.as_bytes());
    if encodings.any(|encoding| !plain(&encoding)) {
        return Err(ApiError::unsupported("Request bodies must not be encoded"));
    }
    let Some(given) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let media_type = given.to_str().unwrap_or("?").split(';').next().unwrap_or_default();
    let media_type = media_type.trim().to_ascii_lowercase();
    let is_json = media_type == "application/json"
        || (media_type.starts_with("application/") && media_type.ends_with("+json"));
    if is_json {
        Ok(())
    } else {
        Err(ApiError::unsupported("Request bodies must be application/json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().expect("a header's value"))])
    }

    #[test]
    fn only_plain_json_is_taken() {
        assert!(check_type(&HeaderMap::new()).is_ok());
        for json in ["application/json", "Application/JSON; charset=utf-8", "application/x+json"] {
            assert!(check_type(&headers(header::CONTENT_TYPE, json)).is_ok(), "{json}");
        }
        for other in ["", "text/plain", "application/jsonp", "multipart/form-data; boundary=x"] {
            assert!(check_type(&headers(header::CONTENT_TYPE, other)).is_err(), "{other}");
        }
        assert!(check_type(&headers(header::CONTENT_ENCODING, "identity")).is_ok());
        assert!(check_type(&headers(header::CONTENT_ENCODING, "gzip")).is_err());
    }
}
