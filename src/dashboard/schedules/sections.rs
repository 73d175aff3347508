//! The lower parts of a schedule's page: jobs, skipped runs, and the definition.

use maud::{Markup, html};

use super::controls::{self, words};
use super::path_of;
use crate::dashboard::table;
use crate::dashboard::table::Column::{Number, Text, WideNumber, WideText};
use crate::dashboard::text::{read_headers, sentence};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{DashboardParts, time, widgets};
use crate::domain::ScheduleId;
use crate::domain::alert::{masked_header, masked_url};
use crate::domain::job::Job;
use crate::domain::schedule::{Schedule, Skip, SkipReason};

/// The number of jobs in the table.
const SHOWN_JOBS: usize = 10;

/// Renders the newest jobs.
pub(super) fn jobs(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    schedule: &Schedule,
    jobs: &[Job],
) -> Markup {
    html! {
        h2 { "Recent jobs" }
        @if jobs.is_empty() {
            p.soft { "There is no job yet. " q { "Run now" } " creates one." }
        } @else {
            (table::render(
                "",
                &[
                    Text("Scheduled"),
                    Text("Status"),
                    WideText("Trigger"),
                    WideNumber("Attempts"),
                    Number("Duration"),
                    Text("Result"),
                ],
                &html! {
                    @for job in jobs.iter().take(SHOWN_JOBS) { (row(dashboard, visitor, job)) }
                },
            ))
            p {
                a href={ (dashboard.path("/jobs")) "?schedule=" (schedule.id) } { "All jobs" }
            }
        }
    }
}

fn row(dashboard: &DashboardParts, visitor: &Visitor, job: &Job) -> Markup {
    html! {
        tr {
            td {
                a href=(dashboard.path(&format!("/jobs/{}", job.id))) {
                    (time::instant(job.scheduled_run_at, visitor.zone))
                }
            }
            td { (widgets::status(job.status)) }
            td.wide { (widgets::trigger_name(job.trigger)) }
            td.number.wide { (job.attempt_number) " of " (job.max_attempts) }
            td.number { @if let Some(ms) = job.duration_ms { (time::millis(ms)) } }
            td {
                @if let Some(code) = job.status_code { (code) }
                @if let Some(message) = &job.error_message { span.sub { (sentence(message)) } }
            }
        }
    }
}

/// Renders the ticks that created no job.
pub(super) fn skips(visitor: &Visitor, skips: &[Skip]) -> Markup {
    html! {
        @if !skips.is_empty() {
            h2 { "Skipped runs" }
            (table::render(
                "",
                &[Text("From"), Text("To"), Number("Runs"), Text("Reason")],
                &html! {
                    @for skip in skips {
                        tr {
                            td { (time::instant(skip.first, visitor.zone)) }
                            td { (time::instant(skip.last, visitor.zone)) }
                            td.number { (skip.count) }
                            td { (reason(&skip.reason)) }
                        }
                    }
                },
            ))
        }
    }
}

/// Returns the reason of a skip in words. A newer release may have written one that is unknown
/// here.
fn reason(name: &str) -> &str {
    match name.parse::<SkipReason>() {
        Ok(SkipReason::Overlap) => "The previous job had not finished.",
        Ok(SkipReason::CatchUp) => "The run was late, and the schedule does not catch up.",
        Ok(SkipReason::Quota) => "The jobs of the plan for this month were used up.",
        Ok(SkipReason::Superseded) => "The schedule was changed or paused before the run.",
        Ok(SkipReason::Suspended) => "The account was suspended.",
        Ok(SkipReason::Restored) => "It was due between a backup and its restore.",
        Ok(SkipReason::Backlog) => "Too many jobs of this schedule had not started.",
        Err(_) => name,
    }
}

/// Renders the definition. Values of headers and in the query of the URL may be secrets, so they
/// are masked.
pub(super) fn definition(schedule: &Schedule, versions: &Markup) -> Markup {
    let definition = &schedule.definition;
    let endpoint = masked_url(&definition.endpoint);
    let success = definition.expected_status_codes.as_deref().unwrap_or("every status below 400");
    html! {
        h2 { "Definition" }
        dl.facts {
            div { dt { "Request" } dd { (definition.http_method) " " (endpoint) } }
            div { dt { "Counts as success" } dd { (success) } }
            div { dt { "Attempts" } dd { (definition.max_retries) } }
            div { dt { "Timeout of an attempt" } dd { (definition.timeout_seconds) " s" } }
            div {
                dt { "If the previous run has not finished" }
                dd { (words(&controls::OVERLAP, schedule.overlap_policy.as_str())) }
            }
            div {
                dt { "If a run is late" }
                dd { (words(&controls::CATCH_UP, schedule.catch_up_policy.as_str())) }
            }
            div { dt { "Signed" } dd { @if definition.sign_requests { "Yes" } @else { "No" } } }
            div { dt { "Id" } dd { code { (schedule.id) } } }
            div { dt { "Version" } dd { code { (schedule.version) } } }
            div { dt { "History" } dd { (versions) } }
        }
        (headers(schedule))
        @if let Some(body) = &definition.body {
            details { summary { "Body, " (body.len()) " bytes" } pre { code { (body) } } }
        }
        @if schedule.unreadable.body || schedule.unreadable.headers {
            p.message { "The stored body or headers cannot be decrypted. Edit the schedule." }
        }
    }
}

/// Renders the link to the page of the versions.
pub(super) fn versions_link(
    dashboard: &DashboardParts,
    schedule: ScheduleId,
    count: u64,
) -> Markup {
    let unit = if count == 1 { "version" } else { "versions" };
    html! { a href={ (path_of(dashboard, schedule)) "/versions" } { (count) " " (unit) } }
}

fn headers(schedule: &Schedule) -> Markup {
    let headers = read_headers(schedule.definition.headers.as_deref());
    html! {
        @if !headers.is_empty() {
            details {
                summary { "Headers: " (headers.len()) }
                table.headers {
                    thead { tr { th scope="col" { "Name" } th scope="col" { "Value" } } }
                    tbody {
                        @for (name, value) in &headers {
                            tr {
                                td { code { (name) } }
                                td { code { (masked_header(name, value)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}
