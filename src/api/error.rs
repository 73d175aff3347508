//! Error answers, which all have the same envelope.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::reply;

/// The delay before a client should retry a call that failed with 503.
const RETRY_AFTER_SECONDS: u64 = 2;

/// An error answer: `{"error": {"message", "code", "details"?}}`.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: Cow<'static, str>,
    details: Option<Value>,
    retry_after_seconds: Option<u64>,
    cause: Option<String>,
}

/// The internal cause of an error. It travels with the response to the log and never reaches the
/// client.
#[derive(Clone)]
pub(super) struct InternalCause(pub(super) String);

/// A refusal.
#[derive(Serialize, ToSchema)]
#[schema(as = Error)]
pub(super) struct Envelope {
    error: ErrorReply,
}

/// The refused call and the reason.
#[derive(Serialize, ToSchema)]
#[schema(as = ErrorBody)]
pub(super) struct ErrorReply {
    /// The message for people.
    #[schema(value_type = String)]
    message: Cow<'static, str>,
    /// The stable code for programs.
    #[schema(value_type = String)]
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    details: Option<Value>,
}

impl ApiError {
    /// Creates an error without details.
    pub fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        let message = message.into();
        Self { status, code, message, details: None, retry_after_seconds: None, cause: None }
    }

    /// Returns the 400 for fields that are not valid.
    pub fn invalid(field_errors: impl Serialize) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "VALIDATION_ERROR", "Validation error")
            .with_details(json!({ "fieldErrors": field_errors }))
    }

    /// Returns the 400 for a body that is not valid as a whole.
    pub fn invalid_form(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "VALIDATION_ERROR", "Validation error")
            .with_details(json!({ "fieldErrors": {}, "formErrors": [message] }))
    }

    /// Returns the 404 for an object that does not exist or belongs to another account. The answers
    /// must not differ.
    pub fn not_found(message: &'static str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }

    /// Returns the 409 for a call that the state of an object does not allow.
    pub fn conflict(code: &'static str, message: &'static str) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    /// Returns the 409 for a repeated call that took effect before, but whose answer was lost.
    pub fn answer_lost() -> Self {
        let message = "The call took effect, but its answer was lost and cannot be returned again";
        Self::conflict("CONFLICT", message)
    }

    /// Returns the 409 for a call whose idempotency key is held by a call that still runs.
    pub fn in_progress() -> Self {
        let message = "A call with this idempotency key is still running";
        Self::conflict("IDEMPOTENCY_IN_PROGRESS", message)
    }

    /// Returns the 405 for a path that is served, but not with this method. The router adds
    /// `Allow`.
    pub fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", "Method not allowed")
    }

    /// Returns the 413 for a body that is larger than the route accepts.
    pub fn too_large(limit_bytes: usize) -> Self {
        let message = format!("Request body must be at most {limit_bytes} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", message)
    }

    /// Returns the 415 for a body that is not plain JSON according to its headers.
    pub fn unsupported(message: &'static str) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", message)
    }

    /// Returns the 500 for a fault of the service. The outermost layer adds the request id.
    pub fn internal(cause: impl Into<String>) -> Self {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        let error = Self::new(status, "INTERNAL_ERROR", "Internal server error");
        Self { cause: Some(cause.into()), ..error }
    }

    /// Returns the 503 for a failure that is expected to pass, with `Retry-After`.
    pub fn unavailable(cause: impl Into<String>) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let error = Self::new(status, "SERVICE_UNAVAILABLE", "Service unavailable, try again soon");
        let error = Self { cause: Some(cause.into()), ..error };
        error.with_retry_after(RETRY_AFTER_SECONDS)
    }

    /// Returns the same error with details.
    pub fn with_details(self, details: Value) -> Self {
        Self { details: Some(details), ..self }
    }

    /// Returns the same error with a `Retry-After`.
    pub fn with_retry_after(self, seconds: u64) -> Self {
        Self { retry_after_seconds: Some(seconds), ..self }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let error = ErrorReply { message: self.message, code: self.code, details: self.details };
        let mut response = reply::json(self.status, &Envelope { error });
        if let Some(seconds) = self.retry_after_seconds {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(cause) = self.cause {
            response.extensions_mut().insert(InternalCause(cause));
        }
        response
    }
}
