//! `GET /v1/schedules/{id}/notifications`

use axum::extract::State;

use super::record::PreferenceRecord;
use crate::api::authentication::ReadAccess;
use crate::api::id::ScheduleInPath;
use crate::api::openapi::{NoSuchSchedule, Usual};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi};

/// Get the notification preference of a schedule
///
/// If none was set, the answer is `none` without channels.
#[utoipa::path(
    get,
    path = "/v1/schedules/{id}/notifications",
    tag = "Notifications",
    params(("id" = String, Path, description = "The schedule's id")),
    responses(
        (status = 200, description = "The preference", body = DataEnvelope<PreferenceRecord>),
        NoSuchSchedule,
        Usual,
    ),
)]
pub(super) async fn get_preference(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
    ScheduleInPath(id): ScheduleInPath,
) -> Result<DataEnvelope<PreferenceRecord>, ApiError> {
    Ok(DataEnvelope::of(api.notifications.preference(account, id).await?.into()))
}
