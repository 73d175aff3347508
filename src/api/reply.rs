//! Success answers, in their envelope.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

/// `{"data": ..., "success": true}`.
#[derive(Serialize, ToSchema)]
#[schema(as = Data)]
pub struct DataEnvelope<T> {
    data: T,
    success: bool,
}

impl<T> DataEnvelope<T> {
    /// Wraps `data` in the envelope.
    pub fn of(data: T) -> Self {
        Self { data, success: true }
    }
}

impl<T: Serialize> IntoResponse for DataEnvelope<T> {
    fn into_response(self) -> Response {
        json(StatusCode::OK, &self)
    }
}

/// Returns a response with a JSON body.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let mut bytes = Vec::with_capacity(1_024);
    serde_json::to_writer(&mut bytes, body)
        .expect("answers have text keys, and writing to memory does not fail");
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
