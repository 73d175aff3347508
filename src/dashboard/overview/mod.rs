//! The overview of an account: failing schedules, its jobs over time, the load of the next 24
//! hours, the last jobs and the next runs. The page of an account without schedules asks one
//! question instead.

mod activity;
mod activity_charts;
mod first;
mod load;
mod tables;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use maud::{Markup, html};

use super::form::FormFields;
use super::jobs::{ScheduleNames, names};
use super::visitor::Visitor;
use super::{Dashboard, DashboardParts, PAGE_BYTES, PageError, newest_jobs, shell, time, widgets};
use crate::accounts::AccountOverview;
use crate::domain::Timestamp;
use crate::domain::job::Job;
use crate::domain::schedule::Schedule;
use crate::store::{SchedulePage, ScheduleQuery, ScheduleSort, SortField};
use activity::{Activity, ActivityRange};
use load::AccountLoad;

/// The number of entries in the lists of last jobs and of next runs.
const LISTED: u32 = 10;
/// The maximum number of failing schedules in the list.
const MAX_FAILING: u32 = 20;

pub(super) fn routes() -> Router<Dashboard> {
    Router::new()
        .route("/dashboard", get(show))
        .route("/dashboard/load", get(load::show))
        .route("/dashboard/first", post(first::submit))
}

/// The objects that the page shows.
struct OverviewContent {
    overview: AccountOverview,
    /// The failing schedules that ran last, newest run first, and the number of all.
    failing: SchedulePage,
    /// The load of the next 24 hours.
    load: AccountLoad,
    /// The schedules that run next.
    next: Vec<Schedule>,
    jobs: Vec<Job>,
    /// The jobs of the range that the address names.
    activity: Activity,
    /// The names of the schedules of the jobs.
    names: ScheduleNames,
    now: Timestamp,
}

async fn show(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    fields: FormFields,
) -> Result<Response, PageError> {
    let account = visitor.account();
    let overview = dashboard.accounts.overview(account).await?.ok_or(PageError::NotFound)?;
    if overview.usage.schedules == 0 {
        return Ok(first::page(&dashboard, &visitor, &overview));
    }
    let failing = schedules(SortField::LastRun, true, MAX_FAILING);
    let failing = ScheduleQuery { is_failing: Some(true), ..failing };
    let upcoming = schedules(SortField::NextTick, false, LISTED);
    let upcoming = ScheduleQuery { is_enabled: Some(true), ..upcoming };
    let mut next = dashboard.schedules.list(account, &upcoming).await?.schedules;
    next.retain(|schedule| schedule.next_tick.is_some());
    let load = AccountLoad::of(&dashboard, &overview.account).await?;
    let jobs = dashboard.schedules.jobs(account, &newest_jobs(LISTED)).await?.jobs;
    let now = dashboard.clock.now();
    let mut activity = Activity::empty(ActivityRange::read(&fields), now, visitor.zone.zone);
    activity.add(&dashboard.schedules.hours(account, activity.from()).await?);
    let shown = OverviewContent {
        overview,
        failing: dashboard.schedules.list(account, &failing).await?,
        load,
        next,
        names: names(&dashboard, account, &jobs).await?,
        jobs,
        activity,
        now,
    };
    let content = content(&dashboard, &visitor, &shown);
    Ok(shell::page(&dashboard, &visitor, ("Overview", "Overview"), &content))
}

fn schedules(field: SortField, descending: bool, limit: u32) -> ScheduleQuery {
    ScheduleQuery {
        contains: None,
        is_enabled: None,
        http_method: None,
        is_failing: None,
        sort: ScheduleSort { field, descending },
        after: None,
        offset: 0,
        limit,
        max_bytes: PAGE_BYTES,
    }
}

fn content(dashboard: &DashboardParts, visitor: &Visitor, shown: &OverviewContent) -> Markup {
    html! {
        h1 { "Overview" }
        (widgets::account_notes(visitor, &shown.overview))
        (figures(visitor, shown))
        @if shown.failing.total > 0 {
            h2 { "Failing now" }
            (tables::failures(dashboard, visitor, shown))
        }
        (activity_charts::charts(dashboard, &shown.activity, visitor.zone))
        (load::part(&shown.load, &dashboard.path(""), visitor.zone))
        h2 { "Last jobs" }
        @if shown.jobs.is_empty() {
            p.soft { "There is no job yet." }
        } @else {
            (tables::jobs(dashboard, visitor, shown))
        }
        @if !shown.next.is_empty() {
            h2 { "Next runs" }
            (tables::next_runs(dashboard, visitor, shown))
        }
    }
}

fn figures(visitor: &Visitor, shown: &OverviewContent) -> Markup {
    let AccountOverview { plan, usage, jobs_this_month, .. } = &shown.overview;
    html! {
        dl.figures {
            div { dt { "Failing now" } dd { (shown.failing.total) } }
            div {
                dt {
                    "Schedules" @if let Some(most) = plan.schedules { " of " (most) }
                }
                dd { (usage.schedules) }
            }
            div {
                dt {
                    "Jobs this month" @if let Some(most) = plan.jobs_per_month { " of " (most) }
                }
                dd { (jobs_this_month) }
            }
            @if let Some(at) = shown.next.first().and_then(|schedule| schedule.next_tick) {
                div {
                    dt { "Next run" }
                    dd { (time::relative(at, shown.now, visitor.zone)) }
                }
            }
        }
    }
}
