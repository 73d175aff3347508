//! `POST /v1/jobs/{id}/retry`

use axum::extract::State;

use crate::api::authentication::WriteAccess;
use crate::api::id::JobInPath;
use crate::api::openapi::{Conflict, Forbidden, NoSuchJob, Usual};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi};
use crate::domain::JobId;

/// Run a finished job again
///
/// The answer is the id of a new job, created with the schedule's current version. For a job that
/// has not finished, the answer is a conflict. A job whose schedule was deleted cannot run again.
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/retry",
    tag = "Jobs",
    params(("id" = String, Path, description = "The job's id")),
    responses(
        (status = 200, description = "The new job's id", body = DataEnvelope<String>),
        Forbidden,
        NoSuchJob,
        Conflict,
        Usual,
    ),
)]
pub(super) async fn retry_job(
    State(api): State<SharedApi>,
    WriteAccess(account, call): WriteAccess,
    JobInPath(id): JobInPath,
) -> Result<DataEnvelope<JobId>, ApiError> {
    Ok(DataEnvelope::of(api.schedules.retry_job(account, call, id).await?))
}
