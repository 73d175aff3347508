//! `GET /v1/schedules`

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::record::ScheduleRecord;
use crate::api::authentication::ReadAccess;
use crate::api::openapi::{BadQuery, Usual};
use crate::api::paging::Paging;
use crate::api::query::QueryParameters;
use crate::api::{ApiError, PAGE_BYTES, SharedApi, cursor, reply, schemas};
use crate::domain::schedule::HttpMethod;
use crate::schedules::FieldErrors;
use crate::store::{SchedulePage, ScheduleQuery, ScheduleSort, SortField};

const LARGEST_PAGE: u32 = 1_000;
/// The values of `sort` and their fields. A `-` may precede a value, for descending order.
const SORTS: [(&str, SortField); 4] = [
    ("name", SortField::Name),
    ("nextRunAtUtc", SortField::NextTick),
    ("lastRunAtUtc", SortField::LastRun),
    ("createdAt", SortField::CreatedAt),
];

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

/// List schedules
///
/// A page ends early at 8 MiB; `nextCursor` then leads to the rest.
#[utoipa::path(
    get,
    path = "/v1/schedules",
    tag = "Schedules",
    params(
        ("page" = Option<u32>, Query, description = "The page number, from 1", minimum = 1),
        ("pageSize" = Option<u32>, Query, description = "The page size; 1000 by default", minimum = 1, maximum = 1000),
        ("limit" = Option<u32>, Query, description = "An alias of `pageSize`", minimum = 1, maximum = 1000),
        ("q" = Option<String>, Query, description = "A text in the name, the description or the endpoint"),
        ("isEnabled" = Option<bool>, Query, description = "Only enabled schedules (`true`) or disabled ones (`false`)"),
        ("httpMethod" = inline(Option<schemas::HttpMethodName>), Query, description = "Only schedules with this method"),
        ("sort" = inline(Option<schemas::SortName>), Query, description = "The order; `-` before the name means descending; `-createdAt` by default"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page; `page` is then ignored"),
    ),
    responses(
        (status = 200, description = "The page", body = ScheduleList),
        BadQuery,
        Usual,
    ),
)]
pub(super) async fn list_schedules(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
    query: QueryParameters,
) -> Result<Response, ApiError> {
    let (query, paging) = read(query)?;
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

fn read(mut query: QueryParameters) -> Result<(ScheduleQuery, Paging), FieldErrors> {
    let paging = Paging::read(&mut query, LARGEST_PAGE, LARGEST_PAGE);
    let sort = sort(&mut query);
    let after = cursor::schedule(&mut query, sort);
    let asked = ScheduleQuery {
        contains: query.text("q"),
        is_enabled: query.flag("isEnabled"),
        http_method: query.one_of("httpMethod", HttpMethod::ALL),
        is_failing: None,
        sort,
        offset: if after.is_some() { 0 } else { paging.offset() },
        after,
        limit: paging.size,
        max_bytes: PAGE_BYTES,
    };
    query.finish((asked, paging))
}

fn sort(query: &mut QueryParameters) -> ScheduleSort {
    let newest = ScheduleSort { field: SortField::CreatedAt, descending: true };
    let Some(text) = query.text("sort") else { return newest };
    let (name, descending) = match text.strip_prefix('-') {
        Some(name) => (name, true),
        None => (text.as_str(), false),
    };
    match SORTS.iter().find(|(known, _)| *known == name) {
        Some((_, field)) => ScheduleSort { field: *field, descending },
        None => {
            let names = SORTS.map(|(name, _)| name).join(", ");
            query.refuse("sort", format!("Must be one of {names}, with or without a - before it"));
            newest
        }
    }
}
