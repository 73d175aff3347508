//! `GET /v1/jobs/{id}`

use axum::extract::State;

use super::record::JobWithAttempts;
use crate::api::authentication::ReadAccess;
use crate::api::id::JobInPath;
use crate::api::openapi::{NoSuchJob, Usual};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi};

/// Get a job with its attempts
#[utoipa::path(
    get,
    path = "/v1/jobs/{id}",
    tag = "Jobs",
    params(("id" = String, Path, description = "The job's id")),
    responses(
        (status = 200, description = "The job", body = DataEnvelope<JobWithAttempts>),
        NoSuchJob,
        Usual,
    ),
)]
pub(super) async fn get_job(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
    JobInPath(id): JobInPath,
) -> Result<DataEnvelope<JobWithAttempts>, ApiError> {
    let (job, attempts) = api.schedules.job(account, id).await?;
    Ok(DataEnvelope::of(JobWithAttempts::new(job, attempts)))
}
