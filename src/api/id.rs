//! Ids in paths. What has not the form of an id names nothing, so it is answered as such.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;

use super::ApiError;
use crate::domain::{JobId, ScheduleId};

/// The schedule that the path names.
pub(super) struct ScheduleInPath(pub(super) ScheduleId);

/// The job that the path names.
pub(super) struct JobInPath(pub(super) JobId);

impl<S: Send + Sync> FromRequestParts<S> for ScheduleInPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let id = segment(parts, state).await.and_then(|text| text.parse().ok());
        id.map(Self).ok_or_else(no_such_schedule)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for JobInPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let id = segment(parts, state).await.and_then(|text| text.parse().ok());
        id.map(Self).ok_or_else(no_such_job)
    }
}

/// The file that the path names; `None` if the name is no text.
pub(super) struct FileInPath(pub(super) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for FileInPath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        Ok(Self(segment(parts, state).await))
    }
}

/// The answer for a schedule that the account does not have.
pub(super) fn no_such_schedule() -> ApiError {
    ApiError::not_found("Schedule not found")
}

/// The answer for a job that the account does not have.
pub(super) fn no_such_job() -> ApiError {
    ApiError::not_found("Job not found")
}

/// The one parameter of the path; `None` if its bytes are no text.
async fn segment<S: Send + Sync>(parts: &mut Parts, state: &S) -> Option<String> {
    Path::<String>::from_request_parts(parts, state).await.ok().map(|Path(text)| text)
}
