//! `POST /v1/schedules/preview`

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::body::JsonBody;
use crate::api::guard::Reader;
use crate::api::openapi::{BadBody, Usual};
use crate::api::reply::Data;
use crate::api::{ApiError, SharedApi, schemas};
use crate::domain::Timestamp;
use crate::domain::cron::Run;
use crate::schedules::{Object, PREVIEW_FIELDS, Preview};

/// An expression to be explained.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase", examples(json!({
    "cronExpression": "30 2 * * *",
    "timezone": "Europe/Berlin",
})))]
#[expect(dead_code, reason = "documents the body, which `schedules` reads")]
pub(super) struct Question {
    /// Five fields: minute, hour, day of month, month, day of week.
    #[schema(max_length = 255, examples("30 2 * * *"))]
    pub cron_expression: String,
    /// An IANA name.
    #[schema(examples("Europe/Berlin"))]
    pub timezone: String,
    /// How many runs to show; 10 unless given, clamped to 1 to 100.
    pub count: Option<i64>,
    /// From when on; now unless given.
    #[schema(schema_with = schemas::instant_or_null)]
    pub from: Option<String>,
}

/// What an expression means.
#[derive(Serialize, ToSchema)]
pub(super) struct Explanation {
    #[schema(examples("At 02:30"))]
    description: String,
    runs: Vec<PlannedRun>,
    /// What may surprise its author.
    warnings: Vec<String>,
}

/// A run to come.
#[derive(Serialize, ToSchema)]
pub(super) struct PlannedRun {
    #[schema(schema_with = schemas::instant)]
    utc: Timestamp,
    /// What the wall shows then, with its offset.
    #[schema(examples("2030-03-31T03:00:00+02:00"))]
    local: String,
    /// What a change of the clock has to do with it, if it has.
    #[schema(required)]
    note: Option<String>,
}

impl From<Run> for PlannedRun {
    fn from(Run { utc, local, note }: Run) -> Self {
        Self { utc, local, note }
    }
}

/// Say when an expression would run
#[utoipa::path(
    post,
    path = "/v1/schedules/preview",
    tag = "Schedules",
    request_body = Question,
    responses(
        (status = 200, description = "What it means", body = Data<Explanation>),
        BadBody,
        Usual,
    ),
)]
pub(super) async fn preview_schedule(
    State(api): State<SharedApi>,
    _: Reader,
    JsonBody(body): JsonBody,
) -> Result<Data<Explanation>, ApiError> {
    let fields = Object::parse(&body, PREVIEW_FIELDS)?;
    let Preview { description, runs, warnings } = api.schedules.preview(fields)?;
    let runs = runs.into_iter().map(PlannedRun::from).collect();
    Ok(Data::of(Explanation { description, runs, warnings }))
}
