//! `GET /v1/jobs`

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::record::JobRecord;
use crate::api::authentication::ReadAccess;
use crate::api::openapi::{BadQuery, Usual};
use crate::api::paging::{PageSizes, Paging};
use crate::api::query::{Parameter, QueryParameters};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, PAGE_BYTES, SharedApi, cursor, schemas};
use crate::domain::ScheduleId;
use crate::domain::job::{JobStatus, Trigger};
use crate::schedules::FieldErrors;
use crate::store::{JobPage, JobQuery};

const PAGE_SIZES: PageSizes = PageSizes { default: 10, max: 100 };
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

/// The parameters of `GET /v1/jobs`.
#[derive(Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct JobListQuery {
    /// Only jobs of this schedule
    #[param(value_type = Option<String>)]
    schedule_id: Parameter,
    /// Only jobs with this status
    #[param(value_type = Option<schemas::JobStatusName>, inline)]
    status: Parameter,
    /// Only jobs with this trigger
    #[param(value_type = Option<schemas::TriggerName>, inline)]
    trigger: Parameter,
    /// Only jobs scheduled from this instant on
    #[param(value_type = Option<String>, format = DateTime)]
    from: Parameter,
    /// Only jobs scheduled up to this instant
    #[param(value_type = Option<String>, format = DateTime)]
    to: Parameter,
    /// The page number, from 1
    #[param(value_type = Option<u32>, minimum = 1)]
    page: Parameter,
    /// The page size; 10 by default
    #[param(value_type = Option<u32>, minimum = 1, maximum = 100)]
    page_size: Parameter,
    /// An alias of `pageSize`
    #[param(value_type = Option<u32>, minimum = 1, maximum = 100)]
    limit: Parameter,
    /// `nextCursor` of the previous page; `page` is then ignored
    #[param(value_type = Option<String>)]
    cursor: Parameter,
}

/// List jobs
///
/// A page ends early at 8 MiB; `nextCursor` then leads to the rest.
#[utoipa::path(
    get,
    path = "/v1/jobs",
    tag = "Jobs",
    params(JobListQuery),
    responses(
        (status = 200, description = "The page", body = DataEnvelope<Jobs>),
        BadQuery,
        Usual,
    ),
)]
pub(super) async fn list_jobs(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
    QueryParameters(query): QueryParameters<JobListQuery>,
) -> Result<DataEnvelope<Jobs>, ApiError> {
    let (query, paging) = check(query)?;
    let page = match query {
        Some(query) => api.schedules.jobs(account, &query).await?,
        None => JobPage { jobs: Vec::new(), total: 0, has_more: false },
    };
    let last = page.jobs.last().filter(|_| page.has_more);
    Ok(DataEnvelope::of(Jobs {
        next_cursor: last.map(|last| cursor::after_job(last.id)),
        jobs: page.jobs.into_iter().map(JobRecord::from).collect(),
        page: paging.page,
        page_size: paging.size,
        total: page.total,
        total_pages: paging.pages(page.total),
    }))
}

/// Checks the parameters. The query is absent if `scheduleId` is malformed: no job can match it, so
/// the page is empty.
fn check(query: JobListQuery) -> Result<(Option<JobQuery>, Paging), FieldErrors> {
    let mut errors = FieldErrors::new();
    let size = PAGE_SIZES.read(query.page_size, query.limit, &mut errors);
    let paging = Paging::read(query.page, size, &mut errors);
    let after = cursor::job(query.cursor, &mut errors);
    let asked = JobQuery {
        schedule: None,
        status: query.status.one_of("status", JobStatus::ALL, &mut errors),
        trigger: query.trigger.one_of("trigger", Trigger::ALL, &mut errors),
        from: query.from.instant("from", &mut errors),
        to: query.to.instant("to", &mut errors),
        offset: if after.is_some() { 0 } else { paging.offset() },
        after,
        limit: paging.size,
        max_response_bytes: RESPONSE_BYTES,
        max_bytes: PAGE_BYTES,
    };
    let asked = match query.schedule_id.id::<ScheduleId>() {
        None => Some(asked),
        Some(Ok(schedule)) => Some(JobQuery { schedule: Some(schedule), ..asked }),
        Some(Err(_)) => None,
    };
    errors.unless_any((asked, paging))
}
