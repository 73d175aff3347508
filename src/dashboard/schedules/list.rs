//! The list of schedules. Search, filters, order and position are in its address.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use super::cron_help::reading;
use super::view::{FAILING, FINE, ListView, OUTCOME, PAGE, SORTS};
use super::{import, path_of, pause};
use crate::dashboard::address::api_address;
use crate::dashboard::form::FormFields;
use crate::dashboard::members::ActorNames;
use crate::dashboard::text::{counted, grouped};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, DashboardParts, PageError, shell, time, widgets};
use crate::domain::Timestamp;
use crate::domain::alert::masked_url;
use crate::domain::schedule::{HttpMethod, Schedule};
use crate::domain::user::Role;
use crate::store::SchedulePage;

pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    headers: http::HeaderMap,
    fields: FormFields,
) -> Result<Response, PageError> {
    render(&dashboard, &visitor, &headers, (&ListView::read(&fields), &html! {})).await
}

/// Renders the list, with a note about the last change above it. The headers are those of the
/// request for the page.
pub(super) async fn render(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    headers: &http::HeaderMap,
    (view, note): (&ListView, &Markup),
) -> Result<Response, PageError> {
    let found = dashboard.schedules.list(visitor.account(), &view.query()).await?;
    let authors = pause::authors(dashboard, visitor, &found.schedules).await?;
    let is_new = found.total == 0 && !view.is_filtered();
    let api = api_address(dashboard, headers);
    let content = html! {
        div.head {
            h1 { "Schedules" }
            @if visitor.may(Role::Member) && !is_new {
                (first_steps(dashboard))
            }
        }
        (note)
        @if !is_new { (filters(dashboard, view)) }
        @if found.schedules.is_empty() {
            (nothing(dashboard, visitor, view, found.total))
        } @else {
            (table(dashboard, visitor, view, (&found, &authors)))
            (pager(dashboard, view, &found))
        }
        (widgets::curl("List them with curl", &format!(
            "curl -s '{api}/schedules' -H 'x-api-key: YOUR_KEY'"
        )))
    };
    Ok(shell::page(dashboard, visitor, ("Schedules", "Schedules"), &content))
}

/// Renders the ways to create schedules.
fn first_steps(dashboard: &DashboardParts) -> Markup {
    html! {
        div.actions {
            a.button href=(dashboard.path("/schedules/new")) { "New schedule" }
            a.button.second href=(dashboard.path(import::PATH)) { "Import" }
        }
    }
}

fn filters(dashboard: &DashboardParts, view: &ListView) -> Markup {
    html! {
        form.filters method="get" action=(dashboard.path("/schedules")) role="search" {
            label { "Search" input type="search" name="q" value=(view.text); }
            (widgets::filter(
                "State",
                "state",
                [("enabled", "Enabled"), ("paused", "Paused")],
                &view.state,
            ))
            (widgets::filter(
                "Outcome",
                OUTCOME,
                [(FAILING, "Failing"), (FINE, "Not failing")],
                &view.outcome,
            ))
            (widgets::filter(
                "Method",
                "method",
                HttpMethod::ALL.iter().map(|one| (one.as_str(), one.as_str())),
                &view.method,
            ))
            label {
                "Order"
                select name="sort" {
                    @for (value, words, ..) in SORTS {
                        option value=(value) selected[value == view.sort] { (words) }
                    }
                }
            }
            button.quiet type="submit" { "Show" }
        }
    }
}

/// Renders the box of a page without schedules.
fn nothing(dashboard: &DashboardParts, visitor: &Visitor, view: &ListView, total: u64) -> Markup {
    if total > 0 {
        let first = html! { a href=(view.at(dashboard, 0)) { "Go to the first page" } };
        return widgets::empty("There are no schedules on this page.", &first);
    }
    if view.is_filtered() {
        let all = html! { a href=(dashboard.path("/schedules")) { "Show all" } };
        return widgets::empty("No schedule matches these filters.", &all);
    }
    widgets::empty(
        "A schedule sends an HTTP request at the times of a cron expression.",
        &html! {
            @if visitor.may(Role::Member) {
                (first_steps(dashboard))
            } @else {
                p { "There is none yet. A member of the account can create one." }
            }
        },
    )
}

fn table(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    view: &ListView,
    (found, authors): (&SchedulePage, &ActorNames),
) -> Markup {
    let (is_member, now) = (visitor.may(Role::Member), dashboard.clock.now());
    html! {
        form method="post" action=(visitor.action(dashboard, "/schedules/bulk")) {
            (view.hidden())
            div.scroll.stack.picks[is_member] tabindex="0" {
                table {
                    thead {
                        tr {
                            @if is_member {
                                th scope="col" {
                                    input type="checkbox" data-all hidden aria-label="Select all";
                                }
                            }
                            th scope="col" { "Name" }
                            th.wide scope="col" { "Time" }
                            th.wide scope="col" { "Next run" }
                            th scope="col" { "Last run" }
                            th.number.wide scope="col" { "Failures in a row" }
                            th scope="col" { "State" }
                        }
                    }
                    tbody {
                        @for schedule in &found.schedules {
                            tr {
                                @if is_member { td { (select(schedule)) } }
                                (cells(dashboard, visitor, (schedule, authors), now))
                            }
                        }
                    }
                }
            }
            @if is_member { (bulk_buttons(view, found)) }
        }
    }
}

/// Renders the actions on the selected schedules, or on all that match if the page has only some of
/// them. The script shows that choice when all boxes of the page are ticked.
fn bulk_buttons(view: &ListView, found: &SchedulePage) -> Markup {
    let match_filters = if view.words().is_empty() { "" } else { " that match these filters" };
    html! {
        @if found.total > found.schedules.len() as u64 {
            p.note data-matching {
                label {
                    input type="checkbox" name="scope" value="matching";
                    " Select all " (counted(found.total, "schedule")) (match_filters)
                    ", not only those on this page"
                }
            }
        }
        div.actions.bulk {
            span.soft { "Selected:" }
            button.quiet type="submit" name="action" value="enable" { "Enable" }
            button.quiet type="submit" name="action" value="disable" { "Pause" }
            button.danger type="submit" name="action" value="delete" { "Delete" }
        }
    }
}

fn select(schedule: &Schedule) -> Markup {
    html! {
        input type="checkbox" name="id" value=(schedule.id) data-one
            aria-label={ "Select " (schedule.name) };
    }
}

fn cells(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    (schedule, authors): (&Schedule, &ActorNames),
    now: Timestamp,
) -> Markup {
    let (definition, zone) = (&schedule.definition, visitor.zone);
    html! {
        td {
            a href=(path_of(dashboard, schedule.id)) { (schedule.name) }
            span.sub { (definition.http_method) " " (masked_url(&definition.endpoint)) }
        }
        td.wide {
            code { (definition.cron_expression) }
            span.sub { (reading(&definition.cron_expression)) " · " (definition.timezone) }
        }
        td.wide { @if let Some(at) = schedule.next_tick { (time::relative(at, now, zone)) } }
        td data-label="Last run" {
            @if let Some(status) = schedule.last_job_status { (widgets::status(status)) }
            @if let Some(at) = schedule.last_run_at {
                span.sub { (time::relative(at, now, zone)) }
            } @else {
                span.soft { "Never" }
            }
        }
        td.number.wide { (schedule.consecutive_failures) }
        td { (state(schedule)) (pause::note(schedule, authors, zone)) }
    }
}

/// Renders the state of a schedule: enabled or paused.
pub(super) fn state(schedule: &Schedule) -> Markup {
    html! {
        @if schedule.is_enabled {
            span.state.running { "Enabled" }
        } @else {
            span.state.off { "Paused" }
        }
    }
}

fn pager(dashboard: &DashboardParts, view: &ListView, found: &SchedulePage) -> Markup {
    let shown = found.schedules.len() as u64;
    let last = view.offset + shown;
    let previous = view.offset.saturating_sub(u64::from(PAGE));
    html! {
        p.soft { (grouped(view.offset + 1)) " to " (grouped(last)) " of " (grouped(found.total)) }
        @if view.offset > 0 || found.has_more {
            nav.pager aria-label="Pages" {
                @if view.offset > 0 {
                    a rel="prev" href=(view.at(dashboard, previous)) { "← Previous" }
                }
                @if found.has_more {
                    a rel="next" href=(view.at(dashboard, last)) { "Next →" }
                }
            }
        }
    }
}
