//! `GET /v1/jobs`

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::record::JobRecord;
use crate::api::authentication::ReadAccess;
use crate::api::openapi::{BadQuery, Usual};
use crate::api::paging::Paging;
use crate::api::query::QueryParameters;
use crate::api::reply::Data;
use crate::api::{ApiError, PAGE_BYTES, SharedApi, cursor, schemas};
use crate::domain::ScheduleId;
use crate::domain::job::{JobStatus, Trigger};
use crate::schedules::FieldErrors;
use crate::store::{JobPage, JobQuery};

const USUAL_PAGE: u32 = 10;
const LARGEST_PAGE: u32 = 100;
/// The maximum size of a response in a list, in bytes. Longer ones are cut.
const RESPONSE_BYTES: usize = 2_048;

/// A page of jobs.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Jobs {
    /// The jobs, newest `scheduledRunAtUtc` first.
    jobs: Vec<JobRecord>,
    page: u32,
    page_size: u32,
    /// The number of jobs that match the filters; exact up to 10,000.
    total: u64,
    total_pages: u64,
    /// The start of the next page, if there is one.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// List jobs
///
/// A page ends early at 8 MiB; `nextCursor` then leads to the rest.
#[utoipa::path(
    get,
    path = "/v1/jobs",
    tag = "Jobs",
    params(
        ("scheduleId" = Option<String>, Query, description = "Only jobs of this schedule"),
        ("status" = inline(Option<schemas::JobStatusName>), Query, description = "Only jobs with this status"),
        ("trigger" = inline(Option<schemas::TriggerName>), Query, description = "Only jobs with this trigger"),
        ("from" = Option<String>, Query, description = "Only jobs scheduled from this instant on", format = DateTime),
        ("to" = Option<String>, Query, description = "Only jobs scheduled up to this instant", format = DateTime),
        ("page" = Option<u32>, Query, description = "The page number, from 1", minimum = 1),
        ("pageSize" = Option<u32>, Query, description = "The page size; 10 by default", minimum = 1, maximum = 100),
        ("limit" = Option<u32>, Query, description = "An alias of `pageSize`", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page; `page` is then ignored"),
    ),
    responses(
        (status = 200, description = "The page", body = Data<Jobs>),
        BadQuery,
        Usual,
    ),
)]
pub(super) async fn list_jobs(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
    query: QueryParameters,
) -> Result<Data<Jobs>, ApiError> {
    let (query, paging) = read(query)?;
    let page = match query {
        Some(query) => api.schedules.jobs(account, &query).await?,
        None => JobPage { jobs: Vec::new(), total: 0, has_more: false },
    };
    let last = page.jobs.last().filter(|_| page.has_more);
    Ok(Data::of(Jobs {
        next_cursor: last.map(|last| cursor::after_job(last.id)),
        jobs: page.jobs.into_iter().map(JobRecord::from).collect(),
        page: paging.page,
        page_size: paging.size,
        total: page.total,
        total_pages: paging.pages(page.total),
    }))
}

/// Reads the query parameters. The query is absent if `scheduleId` is malformed: no job can match
/// it, so the page is empty.
fn read(mut query: QueryParameters) -> Result<(Option<JobQuery>, Paging), FieldErrors> {
    let paging = Paging::read(&mut query, USUAL_PAGE, LARGEST_PAGE);
    let schedule = query.id("scheduleId").map(|text| text.parse::<ScheduleId>());
    let after = cursor::job(&mut query);
    let asked = JobQuery {
        schedule: None,
        status: query.one_of("status", JobStatus::ALL),
        trigger: query.one_of("trigger", Trigger::ALL),
        from: query.instant("from"),
        to: query.instant("to"),
        offset: if after.is_some() { 0 } else { paging.offset() },
        after,
        limit: paging.size,
        max_response_bytes: RESPONSE_BYTES,
        max_bytes: PAGE_BYTES,
    };
    let asked = match schedule {
        None => Some(asked),
        Some(Ok(schedule)) => Some(JobQuery { schedule: Some(schedule), ..asked }),
        Some(Err(_)) => None,
    };
    query.finish((asked, paging))
}
