//! The tables of the overview: failing schedules, last jobs, next runs.

use maud::{Markup, html};

use super::OverviewContent;
use crate::dashboard::schedules::failing_address;
use crate::dashboard::table;
use crate::dashboard::table::Column::{Number, Text};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{DashboardParts, time, widgets};
use crate::domain::ScheduleId;
use crate::domain::alert::masked_url;

/// Renders the schedules whose last job failed, and the way to all of them.
pub(super) fn failures(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    shown: &OverviewContent,
) -> Markup {
    let failing = &shown.failing;
    html! {
        (table::render(
            "",
            &[Text("Schedule"), Number("Failures in a row"), Text("Last run")],
            &html! {
                @for schedule in &failing.schedules {
                    tr {
                        td {
                            (link(dashboard, schedule.id, &schedule.name))
                            span.sub {
                                (schedule.definition.http_method) " "
                                (masked_url(&schedule.definition.endpoint))
                            }
                        }
                        td.number { (schedule.consecutive_failures) }
                        td {
                            @if let Some(at) = schedule.last_run_at {
                                (time::relative(at, shown.now, visitor.zone))
                            }
                        }
                    }
                }
            },
        ))
        @if failing.has_more {
            p { a href=(failing_address(dashboard)) { "Show all " (failing.total) } }
        }
    }
}

/// Renders the newest jobs of all schedules.
pub(super) fn jobs(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    shown: &OverviewContent,
) -> Markup {
    html! {
        (table::render(
            "",
            &[Text("Job"), Text("Status"), Text("Schedule"), Number("Duration")],
            &html! {
                @for job in &shown.jobs {
                    @let name = shown.names.get(&job.schedule_id).cloned();
                    @let name = name.unwrap_or_else(|| masked_url(&job.endpoint));
                    tr {
                        td {
                            a href=(dashboard.path(&format!("/jobs/{}", job.id))) {
                                (time::relative(job.scheduled_run_at, shown.now, visitor.zone))
                            }
                        }
                        td { (widgets::status(job.status)) }
                        td { (link(dashboard, job.schedule_id, &name)) }
                        td.number {
                            @if let Some(ms) = job.duration_ms { (time::millis(ms)) }
                        }
                    }
                }
            },
        ))
    }
}

/// Renders the schedules that run next.
pub(super) fn next_runs(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    shown: &OverviewContent,
) -> Markup {
    html! {
        (table::render(
            "",
            &[Text("Time"), Text("Schedule")],
            &html! {
                @for schedule in &shown.next {
                    tr {
                        td {
                            @if let Some(at) = schedule.next_tick {
                                (time::relative(at, shown.now, visitor.zone))
                            }
                        }
                        td { (link(dashboard, schedule.id, &schedule.name)) }
                    }
                }
            },
        ))
    }
}

fn link(dashboard: &DashboardParts, id: ScheduleId, name: &str) -> Markup {
    html! { a href=(dashboard.path(&format!("/schedules/{id}"))) { (name) } }
}
