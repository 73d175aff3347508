//! `GET /v1/schedules`

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::record::ScheduleRecord;
use crate::api::authentication::ReadAccess;
use crate::api::openapi::{BadQuery, Usual};
use crate::api::paging::{PageSizes, Paging};
use crate::api::query::{Parameter, QueryParameters};
use crate::api::{ApiError, PAGE_BYTES, SharedApi, cursor, reply, schemas};
use crate::domain::schedule::HttpMethod;
use crate::schedules::FieldErrors;
use crate::store::{SchedulePage, ScheduleQuery, ScheduleSort, SortField};

const PAGE_SIZES: PageSizes = PageSizes { default: 1_000, max: 1_000 };
const NEWEST_FIRST: ScheduleSort = ScheduleSort { field: SortField::CreatedAt, descending: true };

/// A page of schedules.
#[derive(Serialize, ToSchema)]
pub(super) struct ScheduleList {
    data: Vec<ScheduleRecord>,
    success: bool,
    pagination: Pagination,
}

/// The position of the page in the list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pagination {
    page: u32,
    page_size: u32,
    /// The number of schedules that match the filters.
    total: u64,
    total_pages: u64,
    /// The start of the next page, if there is one.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// The parameters of `GET /v1/schedules`.
#[derive(Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ScheduleListQuery {
    /// The page number, from 1
    #[param(value_type = Option<u32>, minimum = 1)]
    page: Parameter,
    /// The page size; 1000 by default
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    page_size: Parameter,
    /// An alias of `pageSize`
    #[param(value_type = Option<u32>, minimum = 1, maximum = 1000)]
    limit: Parameter,
    /// A text in the name, the description or the endpoint
    #[param(value_type = Option<String>)]
    q: Parameter,
    /// Only enabled schedules (`true`) or disabled ones (`false`)
    #[param(value_type = Option<bool>)]
    is_enabled: Parameter,
    /// Only schedules with this method
    #[param(value_type = Option<schemas::HttpMethodName>, inline)]
    http_method: Parameter,
    /// The order; `-` before the name means descending; `-createdAt` by default
    #[param(value_type = Option<schemas::SortName>, inline)]
    sort: Parameter,
    /// `nextCursor` of the previous page; `page` is then ignored
    #[param(value_type = Option<String>)]
    cursor: Parameter,
}

/// List schedules
///
/// A page ends early at 8 MiB; `nextCursor` then leads to the rest.
#[utoipa::path(
    get,
    path = "/v1/schedules",
    tag = "Schedules",
    params(ScheduleListQuery),
    responses(
        (status = 200, description = "The page", body = ScheduleList),
        BadQuery,
        Usual,
    ),
)]
pub(super) async fn list_schedules(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
    QueryParameters(query): QueryParameters<ScheduleListQuery>,
) -> Result<Response, ApiError> {
    let (query, paging) = check(query)?;
    let SchedulePage { schedules, total, has_more } = api.schedules.list(account, &query).await?;
    let last = schedules.last().filter(|_| has_more);
    let next_cursor = last.map(|last| cursor::after_schedule(query.sort, last));
    let Paging { page, size: page_size } = paging;
    let total_pages = paging.pages(total);
    let list = ScheduleList {
        data: schedules.into_iter().map(ScheduleRecord::from).collect(),
        success: true,
        pagination: Pagination { page, page_size, total, total_pages, next_cursor },
    };
    Ok(reply::json(StatusCode::OK, &list))
}

fn check(query: ScheduleListQuery) -> Result<(ScheduleQuery, Paging), FieldErrors> {
    let mut errors = FieldErrors::new();
    let size = PAGE_SIZES.read(query.page_size, query.limit, &mut errors);
    let paging = Paging::read(query.page, size, &mut errors);
    let sort = query.sort.parse("sort", &mut errors, parse_sort).unwrap_or(NEWEST_FIRST);
    let after = cursor::schedule(query.cursor, sort, &mut errors);
    let asked = ScheduleQuery {
        contains: query.q.text("q", &mut errors),
        is_enabled: query.is_enabled.flag("isEnabled", &mut errors),
        http_method: query.http_method.one_of("httpMethod", HttpMethod::ALL, &mut errors),
        is_failing: None,
        sort,
        offset: if after.is_some() { 0 } else { paging.offset() },
        after,
        limit: paging.size,
        max_bytes: PAGE_BYTES,
    };
    errors.unless_any((asked, paging))
}

fn parse_sort(text: &str) -> Result<ScheduleSort, String> {
    let (name, descending) = match text.strip_prefix('-') {
        Some(name) => (name, true),
        None => (text, false),
    };
    match schemas::SORTS.iter().find(|(known, _)| *known == name) {
        Some((_, field)) => Ok(ScheduleSort { field: *field, descending }),
        None => {
            let names = schemas::SORTS.map(|(name, _)| name).join(", ");
            Err(format!("Must be one of {names}, with or without a - before it"))
        }
    }
}
