//! `POST /v1/schedules`

use axum::extract::State;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use utoipa::ToSchema;

use super::record::ScheduleRecord;
use crate::api::body::JsonBody;
use crate::api::guard::Writer;
use crate::api::openapi::{BadBody, Forbidden, Usual};
use crate::api::reply::{self, Data};
use crate::api::{Api, ApiError, SharedApi, schemas};
use crate::domain::schedule::Schedule;
use crate::schedules::{Object, SCHEDULE_FIELDS};

/// A schedule to be created. Fields that are not listed are ignored; `null` stands for a default.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase", examples(json!({
    "name": "Nightly report",
    "cronExpression": "0 2 * * *",
    "timezone": "Europe/Berlin",
    "endpoint": "https://example.com/reports",
    "httpMethod": "POST",
    "body": "{\"kind\":\"nightly\"}",
    "headers": "{\"Authorization\":\"Bearer ...\"}",
})))]
#[expect(dead_code, reason = "documents the body, which `schedules` reads")]
pub(super) struct NewSchedule {
    #[schema(min_length = 1, max_length = 255)]
    pub name: String,
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// Five fields: minute, hour, day of month, month, day of week.
    #[schema(max_length = 255, examples("*/5 * * * *"))]
    pub cron_expression: String,
    /// An IANA name.
    #[schema(examples("Europe/Berlin"))]
    pub timezone: String,
    /// An absolute http or https URL.
    #[schema(format = "uri", max_length = 2048, examples("https://example.com/hook"))]
    pub endpoint: String,
    #[schema(schema_with = schemas::http_method)]
    pub http_method: String,
    /// At most 256 KiB. Not sent with GET.
    pub body: Option<String>,
    /// A JSON object of strings, encoded as a string; at most 64 names and 16 KiB.
    #[schema(examples("{\"Authorization\":\"Bearer ...\"}"))]
    pub headers: Option<String>,
    /// Attempts in all, the first included; 3 unless given, clamped to 1 to 10.
    pub max_retries: Option<i64>,
    /// The limit of one attempt; 30 unless given, clamped to 1 to 300.
    pub timeout_seconds: Option<i64>,
    /// Codes and ranges that count as success; every status below 400 unless given.
    #[schema(examples("200-299,410"))]
    pub expected_status_codes: Option<String>,
    /// Whether it runs by its cron expression; `true` unless given.
    pub is_enabled: Option<bool>,
    /// What a tick does while an earlier job has not finished; `allow` unless given.
    #[schema(schema_with = schemas::overlap_policy_or_null)]
    pub overlap_policy: Option<String>,
    /// What becomes of ticks that are over 60 s late; `last` unless given.
    #[schema(schema_with = schemas::catch_up_policy_or_null)]
    pub catch_up_policy: Option<String>,
    /// Whether requests carry the headers of Standard Webhooks, signed with the secrets of the
    /// account; `false` unless given. They replace headers of these names that are given here.
    pub sign_requests: Option<bool>,
}

/// Create a schedule
#[utoipa::path(
    post,
    path = "/v1/schedules",
    tag = "Schedules",
    request_body = NewSchedule,
    responses(
        (status = 201, description = "The schedule", body = Data<ScheduleRecord>,
            headers(("Location" = String, description = "Its path"))),
        BadBody,
        Forbidden,
        Usual,
    ),
)]
pub(super) async fn create_schedule(
    State(api): State<SharedApi>,
    Writer(account, call): Writer,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let fields = Object::parse(&body, SCHEDULE_FIELDS)?;
    let schedule = api.schedules.create(account, call, fields).await?;
    Ok(answer(&api, schedule))
}

/// Returns the answer to the creation of a schedule.
pub(super) fn answer(api: &Api, schedule: Schedule) -> Response {
    let location = format!("{}/v1/schedules/{}", api.base_path.as_str(), schedule.id);
    let record = ScheduleRecord::from(schedule);
    let mut response = reply::json(StatusCode::CREATED, &Data::of(record));
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}
