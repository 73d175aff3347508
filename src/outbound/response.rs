//! Reading a response within size limits.

use http::HeaderMap;

use crate::domain::outcome::Response;

/// The maximum number of body bytes to store, and to read.
const KEPT_BODY: usize = 64 * 1_024;
const READ_BODY: usize = 1_024 * 1_024;
/// The maximum total size of the stored headers, names and values, in bytes.
const KEPT_HEADERS: usize = 16 * 1_024;

/// Reads a response to its end or to the read limit. Beyond the limit, the rest of the body is
/// abandoned and its connection closed. If the body breaks off before that, the result is an error
/// and nothing of the response is kept.
pub async fn receive(mut incoming: reqwest::Response) -> reqwest::Result<Response> {
    let mut response = Response {
        status: incoming.status().as_u16(),
        headers: kept_headers(incoming.headers()),
        ..Response::default()
    };
    let mut read = 0;
    while let Some(chunk) = incoming.chunk().await? {
        read += chunk.len();
        let room = KEPT_BODY - response.body.len();
        response.body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if read >= READ_BODY {
            break;
        }
    }
    response.truncated = read > KEPT_BODY;
    Ok(response)
}

/// Returns the headers in order, as text, up to the first one that exceeds the size limit.
fn kept_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut room = KEPT_HEADERS;
    let mut kept = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        let size = name.as_str().len() + value.len();
        if size > room {
            break;
        }
        room -= size;
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        kept.push((name.as_str().to_owned(), value));
    }
    kept
}
