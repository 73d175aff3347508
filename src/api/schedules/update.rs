//! `PUT` and `PATCH /v1/schedules/{id}`: two methods for the same partial update.

use axum::extract::State;

use super::record::ScheduleRecord;
use crate::api::authentication::WriteAccess;
use crate::api::body::JsonBody;
use crate::api::id::ScheduleInPath;
use crate::api::openapi::{Unchanged, Usual};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi};
use crate::domain::request_body::object;
use crate::schedules::ScheduleUpdate;

/// Change a schedule
///
/// With a new cron expression or timezone, the next run is in the future. Existing jobs keep the
/// definition with which they were created.
#[utoipa::path(
    put,
    path = "/v1/schedules/{id}",
    tag = "Schedules",
    params(("id" = String, Path, description = "The schedule's id")),
    request_body = ScheduleUpdate,
    responses(
        (status = 200, description = "The schedule", body = DataEnvelope<ScheduleRecord>),
        Unchanged,
        Usual,
    ),
)]
pub(super) async fn put_schedule(
    state: State<SharedApi>,
    writer: WriteAccess,
    id: ScheduleInPath,
    body: JsonBody,
) -> Result<DataEnvelope<ScheduleRecord>, ApiError> {
    patch_schedule(state, writer, id, body).await
}

/// Change a schedule
///
/// The same as PUT: only the given fields change.
#[utoipa::path(
    patch,
    path = "/v1/schedules/{id}",
    tag = "Schedules",
    params(("id" = String, Path, description = "The schedule's id")),
    request_body = ScheduleUpdate,
    responses(
        (status = 200, description = "The schedule", body = DataEnvelope<ScheduleRecord>),
        Unchanged,
        Usual,
    ),
)]
pub(super) async fn patch_schedule(
    State(api): State<SharedApi>,
    WriteAccess(account, call): WriteAccess,
    ScheduleInPath(id): ScheduleInPath,
    JsonBody(body): JsonBody,
) -> Result<DataEnvelope<ScheduleRecord>, ApiError> {
    let request: ScheduleUpdate = object(&body)?;
    let schedule = api.schedules.update(account, call, id, request).await?;
    Ok(DataEnvelope::of(schedule.into()))
}
