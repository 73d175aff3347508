//! `POST /v1/schedules`

use axum::extract::State;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};

use super::record::ScheduleRecord;
use crate::api::authentication::WriteAccess;
use crate::api::body::JsonBody;
use crate::api::openapi::{BadBody, Forbidden, Usual};
use crate::api::reply::{self, DataEnvelope};
use crate::api::{Api, ApiError, SharedApi};
use crate::domain::request_body::object;
use crate::domain::schedule::Schedule;
use crate::schedules::ScheduleCreation;

/// Create a schedule
#[utoipa::path(
    post,
    path = "/v1/schedules",
    tag = "Schedules",
    request_body = ScheduleCreation,
    responses(
        (status = 201, description = "The schedule", body = DataEnvelope<ScheduleRecord>,
            headers(("Location" = String, description = "Its path"))),
        BadBody,
        Forbidden,
        Usual,
    ),
)]
pub(super) async fn create_schedule(
    State(api): State<SharedApi>,
    WriteAccess(account, call): WriteAccess,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let request: ScheduleCreation = object(&body)?;
    let schedule = api.schedules.create(account, call, request).await?;
    Ok(answer(&api, schedule))
}

/// Returns the answer to the creation of a schedule.
pub(super) fn answer(api: &Api, schedule: Schedule) -> Response {
    let location = format!("{}/v1/schedules/{}", api.base_path.as_str(), schedule.id);
    let record = ScheduleRecord::from(schedule);
    let mut response = reply::json(StatusCode::CREATED, &DataEnvelope::of(record));
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}
