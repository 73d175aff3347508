//! `PUT` and `PATCH /v1/schedules/{id}`: two methods for the same partial update.

use axum::extract::State;
use utoipa::ToSchema;

use super::record::ScheduleRecord;
use crate::api::body::JsonBody;
use crate::api::guard::Writer;
use crate::api::id::ScheduleInPath;
use crate::api::openapi::{Unchanged, Usual};
use crate::api::reply::Data;
use crate::api::{ApiError, SharedApi, schemas};
use crate::schedules::{Object, SCHEDULE_FIELDS};

/// Fields of a schedule to be changed; the others stay as they are. `null` stands for a default
/// and, like an empty text, clears a field that may be absent.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase", examples(json!({ "cronExpression": "0 3 * * *" })))]
#[expect(dead_code, reason = "documents the body, which `schedules` reads")]
pub(super) struct ScheduleChange {
    #[schema(min_length = 1, max_length = 255, nullable = false)]
    pub name: Option<String>,
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    /// Five fields: minute, hour, day of month, month, day of week.
    #[schema(max_length = 255, examples("*/5 * * * *"), nullable = false)]
    pub cron_expression: Option<String>,
    /// An IANA name.
    #[schema(examples("Europe/Berlin"), nullable = false)]
    pub timezone: Option<String>,
    /// An absolute http or https URL.
    #[schema(
        format = "uri",
        max_length = 2048,
        examples("https://example.com/hook"),
        nullable = false
    )]
    pub endpoint: Option<String>,
    #[schema(required = false, schema_with = schemas::http_method)]
    pub http_method: Option<String>,
    /// At most 256 KiB. Not sent with GET.
    pub body: Option<String>,
    /// A JSON object of strings, encoded as a string; at most 64 names and 16 KiB.
    #[schema(examples("{\"Authorization\":\"Bearer ...\"}"))]
    pub headers: Option<String>,
    /// Attempts in all, the first included; clamped to 1 to 10.
    pub max_retries: Option<i64>,
    /// The limit of one attempt; clamped to 1 to 300.
    pub timeout_seconds: Option<i64>,
    /// Codes and ranges that count as success.
    #[schema(examples("200-299,410"))]
    pub expected_status_codes: Option<String>,
    /// Whether it runs by its cron expression.
    pub is_enabled: Option<bool>,
    /// What a tick does while an earlier job has not finished.
    #[schema(schema_with = schemas::overlap_policy_or_null)]
    pub overlap_policy: Option<String>,
    /// What becomes of ticks that are over 60 s late.
    #[schema(schema_with = schemas::catch_up_policy_or_null)]
    pub catch_up_policy: Option<String>,
    /// Whether requests carry the headers of Standard Webhooks, signed with the secrets of the
    /// account.
    pub sign_requests: Option<bool>,
}

/// Change a schedule
///
/// A new cron expression or timezone has its next run after now. Jobs that exist already run as
/// they were made.
#[utoipa::path(
    put,
    path = "/v1/schedules/{id}",
    tag = "Schedules",
    params(("id" = String, Path, description = "The schedule's id")),
    request_body = ScheduleChange,
    responses(
        (status = 200, description = "The schedule", body = Data<ScheduleRecord>),
        Unchanged,
        Usual,
    ),
)]
pub(super) async fn put_schedule(
    state: State<SharedApi>,
    writer: Writer,
    id: ScheduleInPath,
    body: JsonBody,
) -> Result<Data<ScheduleRecord>, ApiError> {
    patch_schedule(state, writer, id, body).await
}

/// Change a schedule
///
/// The same as PUT: only the fields that are given change.
#[utoipa::path(
    patch,
    path = "/v1/schedules/{id}",
    tag = "Schedules",
    params(("id" = String, Path, description = "The schedule's id")),
    request_body = ScheduleChange,
    responses(
        (status = 200, description = "The schedule", body = Data<ScheduleRecord>),
        Unchanged,
        Usual,
    ),
)]
pub(super) async fn patch_schedule(
    State(api): State<SharedApi>,
    Writer(account, call): Writer,
    ScheduleInPath(id): ScheduleInPath,
    JsonBody(body): JsonBody,
) -> Result<Data<ScheduleRecord>, ApiError> {
    let fields = Object::parse(&body, SCHEDULE_FIELDS)?;
    let schedule = api.schedules.update(account, call, id, fields).await?;
    Ok(Data::of(schedule.into()))
}
