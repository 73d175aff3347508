//! `POST /v1/schedules/preview`

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::authentication::ReadAccess;
use crate::api::body::JsonBody;
use crate::api::openapi::{BadBody, Usual};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi, schemas};
use crate::domain::Timestamp;
use crate::domain::cron::FutureRun;
use crate::domain::request_body::object;
use crate::schedules::{Preview, PreviewRequest};

/// The meaning of an expression.
#[derive(Serialize, ToSchema)]
pub(super) struct Explanation {
    #[schema(examples("At 02:30"))]
    description: String,
    runs: Vec<PlannedRun>,
    /// Warnings about effects that the author may not expect.
    warnings: Vec<String>,
}

/// A future run.
#[derive(Serialize, ToSchema)]
pub(super) struct PlannedRun {
    #[schema(schema_with = schemas::instant)]
    utc: Timestamp,
    /// The same instant as a local time with its offset.
    #[schema(examples("2030-03-31T03:00:00+02:00"))]
    local: String,
    /// The effect of a change of the clock on this run, if there is one.
    #[schema(required)]
    note: Option<String>,
}

impl From<FutureRun> for PlannedRun {
    fn from(FutureRun { utc, local, note }: FutureRun) -> Self {
        Self { utc, local, note }
    }
}

/// Preview the runs of an expression
#[utoipa::path(
    post,
    path = "/v1/schedules/preview",
    tag = "Schedules",
    request_body = PreviewRequest,
    responses(
        (status = 200, description = "The meaning of the expression", body = DataEnvelope<Explanation>),
        BadBody,
        Usual,
    ),
)]
pub(super) async fn preview_schedule(
    State(api): State<SharedApi>,
    _: ReadAccess,
    JsonBody(body): JsonBody,
) -> Result<DataEnvelope<Explanation>, ApiError> {
    let request: PreviewRequest = object(&body)?;
    let Preview { description, runs, warnings } = api.schedules.preview(request)?;
    let runs = runs.into_iter().map(PlannedRun::from).collect();
    Ok(DataEnvelope::of(Explanation { description, runs, warnings }))
}
