//! `POST /v1/schedules/{id}/trigger`

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::authentication::WriteAccess;
use crate::api::id::ScheduleInPath;
use crate::api::openapi::{Forbidden, NoSuchSchedule, Usual};
use crate::api::{ApiError, SharedApi, reply};
use crate::domain::JobId;

/// The created job.
#[derive(Serialize, ToSchema)]
#[schema(as = Triggered)]
pub(super) struct TriggeredJob {
    /// The job's id.
    #[schema(value_type = String, examples("job_01HF7YAT000000000000000007"))]
    data: JobId,
    success: bool,
    message: &'static str,
}

/// Run a schedule now
///
/// This works for a disabled schedule, too, and while another job of it runs. The next run does not
/// change.
#[utoipa::path(
    post,
    path = "/v1/schedules/{id}/trigger",
    tag = "Schedules",
    params(("id" = String, Path, description = "The schedule's id")),
    responses(
        (status = 200, description = "The new job's id", body = TriggeredJob),
        Forbidden,
        NoSuchSchedule,
        Usual,
    ),
)]
pub(super) async fn trigger_schedule(
    State(api): State<SharedApi>,
    WriteAccess(account, call): WriteAccess,
    ScheduleInPath(id): ScheduleInPath,
) -> Result<Response, ApiError> {
    Ok(answer(api.schedules.trigger(account, call, id).await?))
}

/// Returns the answer to a trigger, from the new job's id.
pub(super) fn answer(data: JobId) -> Response {
    let message = "Schedule triggered successfully";
    reply::json(StatusCode::OK, &TriggeredJob { data, success: true, message })
}
