//! The page of one schedule: its state, its last jobs and the possible actions.

use std::slice;

use axum::extract::{Path, State};
use axum::response::Response;
use chrono_tz::Tz;
use http::HeaderMap;
use maud::{Markup, html};
use serde_json::json;

use super::chart::{self, Statistics};
use super::{cron_help, flash, list, path_of, pause, sections};
use crate::dashboard::address::api_address;
use crate::dashboard::form::{FormFields, request};
use crate::dashboard::members::ActorNames;
use crate::dashboard::text::counted;
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{
    Dashboard, DashboardParts, PageError, id_of, newest_jobs, shell, time, widgets,
};
use crate::domain::cron::{FutureRun, parse_timezone};
use crate::domain::job::Job;
use crate::domain::plan::NotifyOn;
use crate::domain::schedule::Schedule;
use crate::domain::user::Role;
use crate::notifications::Preference;
use crate::schedules::PreviewRequest;
use crate::store::{JobQuery, SkipQuery};

/// The number of next runs.
const RUNS: u8 = 5;
/// The newest skips.
const SKIPS: SkipQuery = SkipQuery { from: None, to: None, after: None, limit: 20 };

pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
    asked: HeaderMap,
    fields: FormFields,
) -> Result<Response, PageError> {
    let (account, id) = (visitor.account(), id_of(&id)?);
    let schedule = dashboard.schedules.get(account, id).await?;
    let query = JobQuery { schedule: Some(id), ..newest_jobs(chart::JOBS) };
    let jobs = dashboard.schedules.jobs(account, &query).await?.jobs;
    let skips = dashboard.schedules.skips(account, id, &SKIPS).await?.skips;
    let versions = dashboard.schedules.versions(account, id, None, 0).await?.total;
    let preference = dashboard.notifications.preference(account, id).await?;
    let authors = pause::authors(&dashboard, &visitor, slice::from_ref(&schedule)).await?;
    let api = api_address(&dashboard, &asked);
    let curl = format!("curl -s -X POST '{api}/schedules/{id}/trigger' -H 'x-api-key: YOUR_KEY'");
    let content = html! {
        (flash::note(&dashboard, &visitor, &schedule, &fields))
        (head(&dashboard, &visitor, &schedule))
        (facts(&dashboard, &visitor, (&schedule, &authors), &jobs))
        @if !jobs.is_empty() {
            (chart::strip(&jobs, visitor.zone))
            (chart::durations(&jobs, visitor.zone))
        }
        (sections::jobs(&dashboard, &visitor, &schedule, &jobs))
        (sections::skips(&visitor, &skips))
        (next_runs(&dashboard, &visitor, &schedule))
        (alerts(&dashboard, &visitor, &preference))
        (sections::definition(&schedule, &sections::versions_link(&dashboard, id, versions)))
        (widgets::curl("Run it with curl", &curl))
    };
    Ok(shell::page(&dashboard, &visitor, ("Schedules", schedule.name.as_str()), &content))
}

fn head(dashboard: &DashboardParts, visitor: &Visitor, schedule: &Schedule) -> Markup {
    let path = path_of(dashboard, schedule.id);
    let (switch, to) = if schedule.is_enabled { ("Pause", "false") } else { ("Resume", "true") };
    html! {
        div.head {
            h1 { (schedule.name) }
            @if visitor.may(Role::Member) {
                div.actions {
                    (widgets::action(&format!("{path}/run"), "Run now", ""))
                    form.inline method="post" action={ (path) "/toggle" } {
                        input type="hidden" name="enabled" value=(to);
                        button.second type="submit" { (switch) }
                    }
                    @if schedule.is_enabled {
                        a.button.second href={ (path) "/pause" } { "Pause with a note" }
                    }
                    a.button.second href={ (path) "/edit" } { "Edit" }
                    a.button.danger href={ (path) "/delete" } { "Delete" }
                }
            }
        }
        @if let Some(description) = &schedule.description { p { (description) } }
    }
}

fn facts(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    (schedule, authors): (&Schedule, &ActorNames),
    jobs: &[Job],
) -> Markup {
    let (now, zone) = (dashboard.clock.now(), visitor.zone);
    let (statistics, definition) = (Statistics::of(jobs), &schedule.definition);
    html! {
        dl.facts {
            div {
                dt { "State" }
                dd { (list::state(schedule)) (pause::note(schedule, authors, visitor.zone)) }
            }
            div {
                dt { "Runs" }
                dd {
                    (cron_help::reading(&definition.cron_expression)) br;
                    span.soft { code { (definition.cron_expression) } " " (definition.timezone) }
                }
            }
            @if let Some(at) = schedule.next_tick {
                div { dt { "Next run" } dd { (time::relative(at, now, zone)) } }
            }
            div {
                dt { "Last run" }
                dd {
                    @if let Some(status) = schedule.last_job_status {
                        (widgets::status(status)) " "
                    }
                    @match schedule.last_run_at {
                        Some(at) => { (time::relative(at, now, zone)) },
                        None => { "Never" },
                    }
                }
            }
            div { dt { "Failures in a row" } dd { (schedule.consecutive_failures) } }
            @if let Some(percent) = statistics.success_percent() {
                div {
                    dt { "Success rate" }
                    dd { (percent) " % of " (counted(statistics.finished as u64, "job")) }
                }
            }
            @if let (Some(p50), Some(p95)) = (statistics.p50, statistics.p95) {
                div { dt { "Duration, median" } dd { (time::millis(p50)) } }
                div { dt { "Duration, 95th percentile" } dd { (time::millis(p95)) } }
            }
            div { dt { "Created" } dd { (time::instant(schedule.created_at, zone)) } }
            div { dt { "Changed" } dd { (time::instant(schedule.updated_at, zone)) } }
        }
    }
}

/// Renders the next runs in the zone of the schedule and in UTC.
fn next_runs(dashboard: &DashboardParts, visitor: &Visitor, schedule: &Schedule) -> Markup {
    let zone = parse_timezone(&schedule.definition.timezone).unwrap_or(Tz::UTC);
    let zone = visitor.zone.in_zone(zone);
    html! {
        h2 { "Next runs" }
        @if schedule.is_enabled {
            (cron_help::runs(&upcoming(dashboard, schedule), zone))
        } @else {
            p.soft { "It is paused, so it runs only when it is triggered by hand." }
        }
    }
}

/// Returns the next runs; none if the expression cannot be read any more.
fn upcoming(dashboard: &DashboardParts, schedule: &Schedule) -> Vec<FutureRun> {
    let definition = &schedule.definition;
    let question = json!({
        "cronExpression": definition.cron_expression,
        "timezone": definition.timezone,
        "count": RUNS,
    });
    let question = request::<PreviewRequest>(&question).ok();
    let preview = question.and_then(|question| dashboard.schedules.preview(question).ok());
    preview.map(|preview| preview.runs).unwrap_or_default()
}

/// Renders the outcomes that raise alerts, and the channels that receive them.
fn alerts(dashboard: &DashboardParts, visitor: &Visitor, preference: &Preference) -> Markup {
    let path = format!("{}/alerts", path_of(dashboard, preference.schedule));
    let (outcomes, step) = match preference.policy.notify_on {
        NotifyOn::None => ("No alert is sent when it fails.", "Set up alerts"),
        NotifyOn::Failure => ("Failures are sent to:", "Change alerts"),
        NotifyOn::Success => ("Successes are sent to:", "Change alerts"),
        NotifyOn::Both => ("Failures and successes are sent to:", "Change alerts"),
    };
    html! {
        h2 { "Alerts" }
        p {
            (outcomes)
            @for (position, channel) in preference.channels.iter().enumerate() {
                @if position > 0 { "," } " " (channel.label)
            }
        }
        @if let Some(warning) = &preference.warning { p.note { (warning) } }
        @if visitor.may(Role::Member) { p { a href=(path) { (step) } } }
    }
}
