//! `PATCH /v1/schedules/{id}/toggle`

use axum::extract::State;

use super::record::ScheduleRecord;
use crate::api::authentication::WriteAccess;
use crate::api::body::JsonBody;
use crate::api::id::ScheduleInPath;
use crate::api::openapi::{Unchanged, Usual};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi};
use crate::domain::request_body::object;
use crate::schedules::ScheduleSwitch;

/// Switch a schedule on or off
///
/// The next run of a schedule that is switched on is in the future; no earlier run is caught up.
#[utoipa::path(
    patch,
    path = "/v1/schedules/{id}/toggle",
    tag = "Schedules",
    params(("id" = String, Path, description = "The schedule's id")),
    request_body = ScheduleSwitch,
    responses(
        (status = 200, description = "The schedule", body = DataEnvelope<ScheduleRecord>),
        Unchanged,
        Usual,
    ),
)]
pub(super) async fn toggle_schedule(
    State(api): State<SharedApi>,
    WriteAccess(account, call): WriteAccess,
    ScheduleInPath(id): ScheduleInPath,
    JsonBody(body): JsonBody,
) -> Result<DataEnvelope<ScheduleRecord>, ApiError> {
    let request: ScheduleSwitch = object(&body)?;
    let schedule = api.schedules.toggle(account, call, id, request).await?;
    Ok(DataEnvelope::of(schedule.into()))
}
