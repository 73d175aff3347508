//! A request as it is written to the wire.

use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};

use super::Request;
use crate::domain::endpoint::Endpoint;
use crate::domain::headers::is_framing;

/// Sent unless the request names another.
const OUR_USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("Punctual/", env!("CARGO_PKG_VERSION")));

/// The request with one `Host`, as the first header (RFC 9110, section 7.2), framed by its body
/// alone, and asking for nothing compressed unless the user does.
pub fn outgoing(request: Request, endpoint: &Endpoint) -> reqwest::Request {
    let Request { method, url: _, headers: given, body } = request;
    let mut headers = HeaderMap::with_capacity(given.len() + 4);
    let host = HeaderValue::from_str(endpoint.authority()).expect("an authority is plain ASCII");
    headers.insert(HOST, host);
    let mut name = None;
    for (next, value) in given {
        // Only the first value of a repeated name comes with it.
        name = next.or(name);
        if let Some(name) = name.as_ref().filter(|name| !is_framing(name.as_str())) {
            headers.append(name, value);
        }
    }
    headers.entry(USER_AGENT).or_insert(OUR_USER_AGENT);
    headers.entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
    let body = body.filter(|body| !body.is_empty());
    if body.is_none() && matches!(method, Method::POST | Method::PUT | Method::PATCH) {
        // These mean to carry something, so its length is said even if it is none (RFC 9110, 8.6).
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    let mut outgoing = reqwest::Request::new(method, endpoint.url().clone());
    *outgoing.headers_mut() = headers;
    *outgoing.body_mut() = body.map(Into::into);
    outgoing
}
