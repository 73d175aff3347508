//! `POST /v1/schedules/bulk`

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::authentication::WriteAccess;
use crate::api::body::BulkBody;
use crate::api::openapi::{BadBody, Forbidden, Usual};
use crate::api::reply::{self, DataEnvelope};
use crate::api::{ApiError, SharedApi};
use crate::domain::ScheduleId;
use crate::schedules::ScheduleBatch;

/// The schedules that were created.
#[derive(Serialize, ToSchema)]
pub(super) struct CreatedSchedules {
    count: usize,
    /// The schedules in the order of the request.
    schedules: Vec<CreatedSchedule>,
}

/// A schedule that was created.
#[derive(Serialize, ToSchema)]
pub(super) struct CreatedSchedule {
    #[schema(value_type = String)]
    id: ScheduleId,
    name: String,
}

/// Create up to 1000 schedules
///
/// Either all schedules are created or none. The errors of an item have the key `<index>.<field>`.
/// This endpoint has its own code for failed authentication: `UNAUTHORIZED`, unless the key has
/// expired.
#[utoipa::path(
    post,
    path = "/v1/schedules/bulk",
    tag = "Schedules",
    request_body(content = inline(ScheduleBatch)),
    responses(
        (status = 201, description = "The created schedules", body = DataEnvelope<CreatedSchedules>),
        BadBody,
        Forbidden,
        Usual,
    ),
)]
pub(super) async fn create_schedules(
    State(api): State<SharedApi>,
    WriteAccess(account, call): WriteAccess,
    BulkBody(body): BulkBody,
) -> Result<Response, ApiError> {
    let created = api.schedules.create_bulk(account, call, ScheduleBatch::parse(&body)?).await?;
    Ok(answer(created.into_iter().map(|schedule| (schedule.id, schedule.name))))
}

/// Returns the answer to the creation of several schedules, from their ids and names.
pub(super) fn answer(created: impl Iterator<Item = (ScheduleId, String)>) -> Response {
    let schedules: Vec<_> = created.map(|(id, name)| CreatedSchedule { id, name }).collect();
    let data = CreatedSchedules { count: schedules.len(), schedules };
    reply::json(StatusCode::CREATED, &DataEnvelope::of(data))
}
