//! `GET /v1/schedules/{id}`

use axum::extract::State;

use super::record::ScheduleRecord;
use crate::api::authentication::ReadAccess;
use crate::api::id::ScheduleInPath;
use crate::api::openapi::{NoSuchSchedule, Usual};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi};

/// Get a schedule
#[utoipa::path(
    get,
    path = "/v1/schedules/{id}",
    tag = "Schedules",
    params(("id" = String, Path, description = "The schedule's id")),
    responses(
        (status = 200, description = "The schedule", body = DataEnvelope<ScheduleRecord>),
        NoSuchSchedule,
        Usual,
    ),
)]
pub(super) async fn get_schedule(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
    ScheduleInPath(id): ScheduleInPath,
) -> Result<DataEnvelope<ScheduleRecord>, ApiError> {
    let schedule = api.schedules.get(account, id).await?;
    Ok(DataEnvelope::of(schedule.into()))
}
