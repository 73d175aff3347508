//! The endpoints of jobs.

mod cancel;
mod get;
mod list;
mod record;
mod retry;

pub(in crate::api) use record::JobWithAttempts;

use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::reply::DataEnvelope;
use super::{Api, ApiError, SharedApi};
use crate::domain::{AccountId, JobId};

/// Returns the routes of jobs.
pub(super) fn routes() -> OpenApiRouter<SharedApi> {
    OpenApiRouter::default()
        .routes(routes!(list::list_jobs))
        .routes(routes!(get::get_job))
        .routes(routes!(retry::retry_job))
        .routes(routes!(cancel::cancel_job))
}

/// Rebuilds the answer to a retry from the new job's id.
pub(super) fn retried(id: &str) -> Result<Response, ApiError> {
    let id: JobId = id.parse().map_err(|_| ApiError::answer_lost())?;
    Ok(DataEnvelope::of(id).into_response())
}

/// Rebuilds the answer to a cancellation from the job's id.
pub(super) async fn cancelled(
    api: &Api,
    account: AccountId,
    id: &str,
) -> Result<Response, ApiError> {
    let id = id.parse().map_err(|_| ApiError::answer_lost())?;
    let (job, _) = api.schedules.job(account, id).await?;
    Ok(DataEnvelope::of(record::JobRecord::from(job)).into_response())
}
