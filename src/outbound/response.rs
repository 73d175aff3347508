//! What is kept of a response.

use http::HeaderMap;

use crate::domain::outcome::Response;

/// How much of a body is kept, and how much is read, in bytes.
const KEPT_BODY: usize = 64 * 1_024;
const READ_BODY: usize = 1_024 * 1_024;
/// How much of the headers is kept, names and values, in bytes.
const KEPT_HEADERS: usize = 16 * 1_024;

/// Reads a response to its end, or until it is longer than anyone wants to know; what is left
/// then goes with its connection. A body that breaks off earlier is an error, and nothing of the
/// response is kept.
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

/// The headers in their order, as text, up to the first that would be too much.
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
