//! The list of jobs. Its filters and its position are in the address.

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use maud::{Markup, html};

use super::figures::{result, span, start_lag};
use super::names::{ScheduleNames, names};
use super::schedule_filter;
use crate::dashboard::address::api_address;
use crate::dashboard::form::FormFields;
use crate::dashboard::table;
use crate::dashboard::table::Column::{Number, Text, WideNumber, WideText};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, DashboardParts, PageError, newest_jobs, shell, time, widgets};
use crate::domain::job::{Job, JobStatus, Trigger};
use crate::domain::{JobId, ScheduleId};
use crate::store::{JobPage, JobQuery};

const PAGE_JOBS: u32 = 50;
/// The last page that is found by counting from the newest job: the store counts 10,000 jobs.
const LAST_PAGE: u64 = 200;
/// The filters of the list, and the position in it.
struct JobFilters {
    status: Option<JobStatus>,
    trigger: Option<Trigger>,
    /// The id of a schedule as it was given; empty for all schedules.
    schedule: String,
    /// The part of a schedule's name that was searched for; empty for none.
    name: String,
    /// The last job of the page before.
    after: Option<JobId>,
    /// The number of the page. With `after` it is only the way back.
    page: u64,
}

impl JobFilters {
    fn read(fields: &FormFields) -> Self {
        // PostgreSQL cannot search for a NUL character, and no text has one.
        let text = |name: &str| fields.text(name).trim().replace('\0', "");
        let page: u64 = fields.text("page").parse().unwrap_or(1);
        Self {
            status: fields.text("status").parse().ok(),
            trigger: fields.text("trigger").parse().ok(),
            schedule: text("schedule"),
            name: text("name"),
            after: fields.text("after").parse().ok(),
            page: page.clamp(1, LAST_PAGE),
        }
    }

    /// Returns `true` for the first page of all jobs.
    fn is_first_of_all(&self) -> bool {
        !self.is_filtered() && self.after.is_none() && self.page == 1
    }

    /// Returns the query; `None` if no job can match because the schedule's id is malformed.
    fn query(&self) -> Option<JobQuery> {
        let schedule = match self.schedule.as_str() {
            "" => None,
            text => Some(text.parse().ok()?),
        };
        let before = (self.page - 1) * u64::from(PAGE_JOBS);
        Some(JobQuery {
            schedule,
            status: self.status,
            trigger: self.trigger,
            after: self.after,
            offset: if self.after.is_some() { 0 } else { before },
            ..newest_jobs(PAGE_JOBS)
        })
    }

    fn is_filtered(&self) -> bool {
        self.status.is_some() || self.trigger.is_some() || !self.schedule.is_empty()
    }

    /// Returns the address of the first page of the jobs of a schedule; of all schedules if the id
    /// is empty.
    fn of_schedule(&self, dashboard: &DashboardParts, schedule: &str) -> String {
        let pairs = [
            ("status", self.status.map_or("", JobStatus::as_str)),
            ("trigger", self.trigger.map_or("", Trigger::as_str)),
            ("schedule", schedule),
        ];
        dashboard.address("/jobs", pairs)
    }

    /// Returns the address of another page of the same list.
    fn address(&self, dashboard: &DashboardParts, page: u64, after: Option<JobId>) -> String {
        let (page, after) = (page.to_string(), after.map(|id| id.to_string()).unwrap_or_default());
        let pairs = [
            ("status", self.status.map_or("", JobStatus::as_str)),
            ("trigger", self.trigger.map_or("", Trigger::as_str)),
            ("schedule", self.schedule.as_str()),
            ("page", page.as_str()),
            ("after", after.as_str()),
        ];
        dashboard.address("/jobs", pairs)
    }
}

pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    headers: HeaderMap,
    fields: FormFields,
) -> Result<Response, PageError> {
    let api = api_address(&dashboard, &headers);
    let filters = JobFilters::read(&fields);
    let account = visitor.account();
    let mut found = None;
    if !filters.name.is_empty() {
        // A search leads to an address that names the schedule, so that a bookmark stays valid.
        let searched = match filters.name.parse::<ScheduleId>() {
            Ok(id) => Ok(id),
            Err(_) => Err(schedule_filter::search(&dashboard, account, &filters.name).await?),
        };
        match searched.or_else(|some| some.meant().ok_or(some)) {
            Ok(id) => {
                let page = filters.of_schedule(&dashboard, &id.to_string());
                return Ok(shell::redirect(&page));
            }
            Err(several) => found = Some(several),
        }
    }
    let page = match filters.query() {
        Some(query) => dashboard.schedules.jobs(visitor.account(), &query).await?,
        None => JobPage { jobs: Vec::new(), total: 0, has_more: false },
    };
    let names = names(&dashboard, visitor.account(), &page.jobs).await?;
    let chip = match filters.schedule.as_str() {
        "" => html! {},
        id => {
            let without = filters.of_schedule(&dashboard, "");
            schedule_filter::chip(&dashboard, account, id, &without).await?
        }
    };
    let is_new = page.jobs.is_empty() && filters.is_first_of_all();
    let content = html! {
        h1 { "Jobs" }
        @if !is_new { (filter_form(&dashboard, &filters)) }
        (chip)
        @if let Some(found) = &found {
            (found.choice(|id| filters.of_schedule(&dashboard, &id.to_string())))
        }
        @if page.jobs.is_empty() {
            (nothing(&dashboard, is_new))
        } @else {
            (table(&dashboard, &visitor, &page.jobs, &names))
        }
        (pager(&dashboard, &filters, &page))
        (widgets::curl("List them with curl", &format!(
            "curl -s '{api}/jobs' -H 'x-api-key: YOUR_KEY'"
        )))
    };
    Ok(shell::page(&dashboard, &visitor, ("Jobs", "Jobs"), &content))
}

fn filter_form(dashboard: &DashboardParts, filters: &JobFilters) -> Markup {
    html! {
        form.filters method="get" action=(dashboard.path("/jobs")) {
            (widgets::filter(
                "Status",
                "status",
                JobStatus::ALL.iter().map(|one| (one.as_str(), widgets::status_name(*one))),
                filters.status.map_or("", JobStatus::as_str),
            ))
            (widgets::filter(
                "Trigger",
                "trigger",
                Trigger::ALL.iter().map(|one| (one.as_str(), widgets::trigger_name(*one))),
                filters.trigger.map_or("", Trigger::as_str),
            ))
            input type="hidden" name="schedule" value=(filters.schedule);
            label {
                "Schedule"
                input type="search" name="name" value=(filters.name) placeholder="Name or id";
            }
            button.second type="submit" { "Filter" }
            @if filters.is_filtered() { a href=(dashboard.path("/jobs")) { "Show all" } }
        }
    }
}

fn nothing(dashboard: &DashboardParts, is_new: bool) -> Markup {
    if !is_new {
        let all = html! { a href=(dashboard.path("/jobs")) { "Show all jobs" } };
        return widgets::empty("No job matches.", &all);
    }
    let step = html! { a.button href=(dashboard.path("/schedules/new")) { "New schedule" } };
    widgets::empty("No job yet. A schedule creates one at each of its times.", &step)
}

fn table(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    jobs: &[Job],
    names: &ScheduleNames,
) -> Markup {
    html! {
        (table::render_stacked(
            "Jobs, newest first",
            &[
                Text("Scheduled"),
                Text("Status"),
                Text("Schedule"),
                WideText("Trigger"),
                WideNumber("Start lag"),
                Number("Duration"),
                Text("Result"),
            ],
            &html! {
                @for job in jobs { (row(dashboard, visitor, job, names)) }
            },
        ))
    }
}

fn row(dashboard: &DashboardParts, visitor: &Visitor, job: &Job, names: &ScheduleNames) -> Markup {
    let schedule = dashboard.path(&format!("/schedules/{}", job.schedule_id));
    html! {
        tr {
            th scope="row" {
                a href=(dashboard.path(&format!("/jobs/{}", job.id))) {
                    (time::instant(job.scheduled_run_at, visitor.zone))
                }
            }
            td { (widgets::status(job.status)) }
            td {
                @if let Some(name) = names.get(&job.schedule_id) {
                    a href=(schedule) { (name) }
                } @else {
                    a href=(schedule) { code { (job.schedule_id) } }
                }
            }
            td.wide { (widgets::trigger_name(job.trigger)) }
            td.number.wide { (start_lag(job).as_deref().unwrap_or("–")) }
            td.number data-label="Duration" { (span(job.duration_ms)) }
            td data-label="Result" { (result(job.status_code, job.error_code)) }
        }
    }
}

/// Renders the links to the pages beside this one. The way to older jobs starts after the last job
/// of this page, so that new jobs do not move it.
fn pager(dashboard: &DashboardParts, filters: &JobFilters, page: &JobPage) -> Markup {
    let newer = (filters.page > 1).then(|| filters.address(dashboard, filters.page - 1, None));
    let last = page.jobs.last().filter(|_| page.has_more);
    let older = last.map(|job| filters.address(dashboard, filters.page + 1, Some(job.id)));
    widgets::pager(newer, older)
}
