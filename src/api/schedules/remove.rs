//! `DELETE /v1/schedules/{id}`

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::authentication::WriteAccess;
use crate::api::id::ScheduleInPath;
use crate::api::openapi::{Forbidden, NoSuchSchedule, Usual};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi};
use crate::domain::ScheduleId;

/// The schedule that was deleted.
#[derive(Serialize, ToSchema)]
#[schema(as = Deleted)]
pub(super) struct DeletedSchedule {
    #[schema(value_type = String)]
    id: ScheduleId,
}

/// Delete a schedule
///
/// No job of the schedule is created after the answer. Waiting jobs end as FAILED with `errorCode`
/// `CANCELLED`, running ones finish. Past jobs stay readable by id until their retention ends.
#[utoipa::path(
    delete,
    path = "/v1/schedules/{id}",
    tag = "Schedules",
    params(("id" = String, Path, description = "The schedule's id")),
    responses(
        (status = 200, description = "The deleted schedule", body = DataEnvelope<DeletedSchedule>),
        Forbidden,
        NoSuchSchedule,
        Usual,
    ),
)]
pub(super) async fn delete_schedule(
    State(api): State<SharedApi>,
    WriteAccess(account, call): WriteAccess,
    ScheduleInPath(id): ScheduleInPath,
) -> Result<DataEnvelope<DeletedSchedule>, ApiError> {
    api.schedules.delete(account, call, id).await?;
    Ok(DataEnvelope::of(DeletedSchedule { id }))
}
