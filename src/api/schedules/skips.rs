//! `GET /v1/schedules/{id}/skips`

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::authentication::ReadAccess;
use crate::api::id::ScheduleInPath;
use crate::api::openapi::{BadQuery, NoSuchSchedule, Usual};
use crate::api::paging::Paging;
use crate::api::query::QueryParameters;
use crate::api::reply::Data;
use crate::api::{ApiError, SharedApi, cursor, schemas};
use crate::domain::Timestamp;
use crate::domain::schedule::Skip;
use crate::schedules::FieldErrors;
use crate::store::{SkipPage, SkipQuery};

const USUAL_PAGE: u32 = 100;
const LARGEST_PAGE: u32 = 1_000;

/// A page of skips.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Skips {
    /// The skips, newest first.
    skips: Vec<SkipRecord>,
    /// The start of the next page, if there is one.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// Consecutive ticks that did not become jobs, for one reason.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Skip)]
pub(in crate::api) struct SkipRecord {
    #[schema(schema_with = schemas::instant)]
    first_utc: Timestamp,
    #[schema(schema_with = schemas::instant)]
    last_utc: Timestamp,
    /// The number of ticks, exact up to 10,000.
    count: u32,
    #[schema(schema_with = schemas::skip_reason)]
    reason: String,
}

impl From<Skip> for SkipRecord {
    fn from(skip: Skip) -> Self {
        let Skip { first, last, count, reason } = skip;
        Self { first_utc: first, last_utc: last, count, reason }
    }
}

/// List ticks that did not become jobs
#[utoipa::path(
    get,
    path = "/v1/schedules/{id}/skips",
    tag = "Schedules",
    params(
        ("id" = String, Path, description = "The schedule's id"),
        ("from" = Option<String>, Query, description = "Only skips that end at this instant or later", format = DateTime),
        ("to" = Option<String>, Query, description = "Only skips that begin at this instant or earlier", format = DateTime),
        ("pageSize" = Option<u32>, Query, description = "The page size; 100 by default", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page"),
    ),
    responses(
        (status = 200, description = "The page", body = Data<Skips>),
        BadQuery,
        NoSuchSchedule,
        Usual,
    ),
)]
pub(super) async fn list_skips(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
    ScheduleInPath(id): ScheduleInPath,
    query: QueryParameters,
) -> Result<Data<Skips>, ApiError> {
    let SkipPage { skips, next } = api.schedules.skips(account, id, &read(query)?).await?;
    let skips = skips.into_iter().map(SkipRecord::from).collect();
    Ok(Data::of(Skips { skips, next_cursor: next.map(cursor::after_skip) }))
}

fn read(mut query: QueryParameters) -> Result<SkipQuery, FieldErrors> {
    let paging = Paging::read(&mut query, USUAL_PAGE, LARGEST_PAGE);
    let asked = SkipQuery {
        from: query.instant("from"),
        to: query.instant("to"),
        after: cursor::skip(&mut query),
        limit: paging.size,
    };
    query.finish(asked)
}
