//! `POST /v1/schedules/preview`

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::authentication::Reader;
use crate::api::body::JsonBody;
use crate::api::openapi::{BadBody, Usual};
use crate::api::reply::Data;
use crate::api::{ApiError, SharedApi, schemas};
use crate::domain::Timestamp;
use crate::domain::cron::Run;
use crate::domain::request_body::object;
use crate::schedules::{Preview, PreviewRequest};

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
    request_body = PreviewRequest,
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
    let request: PreviewRequest = object(&body)?;
    let Preview { description, runs, warnings } = api.schedules.preview(request)?;
    let runs = runs.into_iter().map(PlannedRun::from).collect();
    Ok(Data::of(Explanation { description, runs, warnings }))
}
