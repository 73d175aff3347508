//! `POST /v1/schedules/bulk`

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::authentication::WriteAccess;
use crate::api::body::BulkBody;
use crate::api::openapi::{BadBody, Forbidden, Usual};
use crate::api::reply::{self, Data};
use crate::api::{ApiError, SharedApi};
use crate::domain::ScheduleId;
use crate::schedules::ScheduleBatch;

/// The schedules that were created.
#[derive(Serialize, ToSchema)]
pub(super) struct CreatedSchedules {
    count: usize,
    /// In the order of the request.
    schedules: Vec<CreatedSchedule>,
}

/// One of them.
#[derive(Serialize, ToSchema)]
pub(super) struct CreatedSchedule {
    #[schema(value_type = String)]
    id: ScheduleId,
    name: String,
}

/// Create up to 1000 schedules
///
/// All of them are created, or none: the errors of an item stand under `<its place>.<field>`.
/// Failed authentication has codes of its own here: `UNAUTHORIZED` unless the key has expired.
#[utoipa::path(
    post,
    path = "/v1/schedules/bulk",
    tag = "Schedules",
    request_body(content = inline(ScheduleBatch)),
    responses(
        (status = 201, description = "What was created", body = Data<CreatedSchedules>),
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
    reply::json(StatusCode::CREATED, &Data::of(data))
}
