//! The conversion of a request to its form on the wire.

use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};

use super::Request;
use crate::domain::endpoint::Endpoint;
use crate::domain::headers::is_framing;

/// The `User-Agent` header of requests that do not set one.
pub const OUR_USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("Punctual/", env!("CARGO_PKG_VERSION")));

/// Builds the outgoing request. `Host` appears once and first (RFC 9110, section 7.2), the message
/// is framed by its body alone, and no compression is requested unless the user asks for it.
pub fn outgoing(request: Request, endpoint: &Endpoint) -> reqwest::Request {
    let Request { method, url: _, headers: given, body } = request;
    let mut headers = HeaderMap::with_capacity(given.len() + 4);
    let host = HeaderValue::from_str(endpoint.authority()).expect("an authority is plain ASCII");
    headers.insert(HOST, host);
    let mut name = None;
    for (next, value) in given {
        // The iterator returns the name only with the first value of a repeated header.
        name = next.or(name);
        if let Some(name) = name.as_ref().filter(|name| !is_framing(name.as_str())) {
            headers.append(name, value);
        }
    }
    headers.entry(USER_AGENT).or_insert(OUR_USER_AGENT);
    headers.entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("identity"));
    let body = body.filter(|body| !body.is_empty());
    if body.is_none() && matches!(method, Method::POST | Method::PUT | Method::PATCH) {
        // These methods normally carry a body, so a zero length is stated (RFC 9110, 8.6).
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    let mut outgoing = reqwest::Request::new(method, endpoint.url().clone());
    *outgoing.headers_mut() = headers;
    *outgoing.body_mut() = body.map(Into::into);
    outgoing
}
