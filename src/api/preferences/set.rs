//! `PUT /v1/schedules/{id}/notifications`

use axum::extract::State;

use super::record::PreferenceRecord;
use crate::api::authentication::WriteAccess;
use crate::api::body::JsonBody;
use crate::api::id::ScheduleInPath;
use crate::api::openapi::{Unchanged, Usual};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi};
use crate::domain::request_body::object;
use crate::notifications::PreferenceUpdate;

/// Set the notification preference of a schedule
///
/// The request replaces the whole preference. Only verified channels can be attached.
#[utoipa::path(
    put,
    path = "/v1/schedules/{id}/notifications",
    tag = "Notifications",
    params(("id" = String, Path, description = "The schedule's id")),
    request_body = PreferenceUpdate,
    responses(
        (status = 200, description = "The preference", body = DataEnvelope<PreferenceRecord>),
        Unchanged,
        Usual,
    ),
)]
pub(super) async fn set_preference(
    State(api): State<SharedApi>,
    WriteAccess(account, call): WriteAccess,
    ScheduleInPath(id): ScheduleInPath,
    JsonBody(body): JsonBody,
) -> Result<DataEnvelope<PreferenceRecord>, ApiError> {
    let request: PreferenceUpdate = object(&body)?;
    Ok(DataEnvelope::of(api.notifications.set_preference(account, call, id, request).await?.into()))
}
