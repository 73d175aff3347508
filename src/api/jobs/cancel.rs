//! `POST /v1/jobs/{id}/cancel`

use axum::extract::State;

use super::record::JobRecord;
use crate::api::authentication::WriteAccess;
use crate::api::id::JobInPath;
use crate::api::openapi::{Conflict, Forbidden, NoSuchJob, Usual};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi};

/// Cancel a job
///
/// A waiting job ends at once, as FAILED with `errorCode` `CANCELLED`. The attempt of a running job
/// is aborted within 5 s, and no other attempt follows. For a finished job, the answer is a
/// conflict.
#[utoipa::path(
    post,
    path = "/v1/jobs/{id}/cancel",
    tag = "Jobs",
    params(("id" = String, Path, description = "The job's id")),
    responses(
        (status = 200, description = "The job in its new state", body = DataEnvelope<JobRecord>),
        Forbidden,
        NoSuchJob,
        Conflict,
        Usual,
    ),
)]
pub(super) async fn cancel_job(
    State(api): State<SharedApi>,
    WriteAccess(account, call): WriteAccess,
    JobInPath(id): JobInPath,
) -> Result<DataEnvelope<JobRecord>, ApiError> {
    Ok(DataEnvelope::of(api.schedules.cancel_job(account, call, id).await?.into()))
}
