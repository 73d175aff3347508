//! `GET /v1/schedules/{id}/skips`

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::authentication::ReadAccess;
use crate::api::id::ScheduleInPath;
use crate::api::openapi::{BadQuery, NoSuchSchedule, Usual};
use crate::api::paging::PageSizes;
use crate::api::query::{Parameter, QueryParameters};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi, cursor, schemas};
use crate::domain::Timestamp;
use crate::domain::schedule::Skip;
use crate::schedules::FieldErrors;
use crate::store::{SkipPage, SkipQuery};

const PAGE_SIZES: PageSizes = PageSizes { default: 100, max: 1_000 };

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

/// The parameters of `GET /v1/schedules/{id}/skips`.
#[derive(Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SkipListQuery {
    /// Only skips that end at this instant or later
    #[param(value_type = Option<String>, format = DateTime)]
    from: Parameter,
    /// Only skips that begin at this instant or earlier
    #[param(value_type = Option<String>, format = DateTime)]
    to: Parameter,
    /// The page size; 100 by default
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    page_size: Parameter,
    /// An alias of `pageSize`
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Parameter,
    /// `nextCursor` of the previous page
    #[param(value_type = Option<String>)]
    cursor: Parameter,
}

/// List ticks that did not become jobs
#[utoipa::path(
    get,
    path = "/v1/schedules/{id}/skips",
    tag = "Schedules",
    params(("id" = String, Path, description = "The schedule's id"), SkipListQuery),
    responses(
        (status = 200, description = "The page", body = DataEnvelope<Skips>),
        BadQuery,
        NoSuchSchedule,
        Usual,
    ),
)]
pub(super) async fn list_skips(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
    ScheduleInPath(id): ScheduleInPath,
    QueryParameters(query): QueryParameters<SkipListQuery>,
) -> Result<DataEnvelope<Skips>, ApiError> {
    let SkipPage { skips, next } = api.schedules.skips(account, id, &check(query)?).await?;
    let skips = skips.into_iter().map(SkipRecord::from).collect();
    Ok(DataEnvelope::of(Skips { skips, next_cursor: next.map(cursor::after_skip) }))
}

fn check(query: SkipListQuery) -> Result<SkipQuery, FieldErrors> {
    let mut errors = FieldErrors::new();
    let asked = SkipQuery {
        from: query.from.instant("from", &mut errors),
        to: query.to.instant("to", &mut errors),
        after: cursor::skip(query.cursor, &mut errors),
        limit: PAGE_SIZES.read(query.page_size, query.limit, &mut errors),
    };
    errors.unless_any(asked)
}
