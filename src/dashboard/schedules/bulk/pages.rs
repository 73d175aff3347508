//! The pages of a bulk action: the question before it, its progress and its result.

use axum::response::Response;
use maud::{Markup, html};

use super::action::{BulkAction, BulkTargets, joined};
use super::report::BulkReport;
use crate::dashboard::schedules::view::ListView;
use crate::dashboard::shell::{self, redirect};
use crate::dashboard::text::{counted, grouped};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{DashboardParts, PageError, question};
use crate::domain::ScheduleId;
use crate::domain::schedule::Schedule;
use crate::schedules::CommandError;
use crate::store::ScheduleQuery;

/// The maximum number of names that the question lists.
const MAX_NAMES: u32 = 10;

/// Asks for confirmation before schedules are deleted, or before all matching schedules are
/// changed.
pub(super) async fn ask(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    (action, targets): (BulkAction, &BulkTargets),
    view: &ListView,
) -> Result<Response, PageError> {
    let (schedules, count) = match targets {
        BulkTargets::Chosen(ids) => {
            let found = existing(dashboard, visitor, ids).await?;
            let count = found.len() as u64;
            (found, count)
        }
        BulkTargets::Matching(_) => {
            let query = ScheduleQuery { offset: 0, limit: MAX_NAMES, ..view.query() };
            let page = dashboard.schedules.list(visitor.account(), &query).await?;
            (page.schedules, page.total)
        }
    };
    if count == 0 {
        return Ok(redirect(&view.address(dashboard)));
    }
    // The ids of schedules that are gone by now are not sent along.
    let targets = match targets {
        BulkTargets::Chosen(_) => BulkTargets::Chosen(schedules.iter().map(|one| one.id).collect()),
        BulkTargets::Matching(_) => BulkTargets::Matching(None),
    };
    let words = format!("{} {}", action.verb(), counted(count, "schedule"));
    let content = html! {
        h1 { (words) "?" }
        @if targets.is_all_matching() { (matching(view, count)) }
        p { (consequence(action, count)) }
        ul { @for schedule in &schedules { li { (schedule.name) } } }
        @if count > schedules.len() as u64 {
            p.soft { "And " (grouped(count - schedules.len() as u64)) " more." }
        }
        form.actions method="post" action=(visitor.action(dashboard, "/schedules/bulk")) {
            (view.hidden())
            (targets.hidden())
            (question::sure())
            button.danger[action == BulkAction::Delete] type="submit" name="action"
                value=(action.as_str()) { (words) }
            a.button.second href=(view.address(dashboard)) {
                @match (action, count) {
                    (BulkAction::Delete, 1) => "Keep it",
                    (BulkAction::Delete, _) => "Keep them",
                    _ => "Cancel",
                }
            }
        }
    };
    let title = format!("{} schedules", action.verb());
    Ok(shell::page(dashboard, visitor, ("Schedules", &title), &content))
}

/// Returns the schedules that still exist.
async fn existing(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    ids: &[ScheduleId],
) -> Result<Vec<Schedule>, PageError> {
    let mut schedules = Vec::new();
    for id in ids {
        match dashboard.schedules.get(visitor.account(), *id).await {
            Ok(schedule) => schedules.push(schedule),
            Err(CommandError::NoSuchSchedule) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(schedules)
}

/// Renders the filters, and the effect if the number of matching schedules changes.
fn matching(view: &ListView, count: u64) -> Markup {
    let filters = view.words();
    html! {
        @if filters.is_empty() {
            p { "These are all schedules of the account." }
        } @else {
            p { "These are all schedules that match the filters:" }
            ul { @for filter in &filters { li { (filter) } } }
        }
        p.note {
            (counted(count, "schedule")) @if count == 1 { " matches" } @else { " match" }
            " now. If the number changes before you confirm, the action applies to the schedules \
             that match then."
        }
    }
}

fn consequence(action: BulkAction, count: u64) -> String {
    let they = if count == 1 { "It" } else { "They" };
    let s = if count == 1 { "s" } else { "" };
    match action {
        BulkAction::Delete => format!(
            "{they} stop{s} running, and pending jobs fail. Past jobs stay until their retention \
             ends. This cannot be undone."
        ),
        BulkAction::Disable => {
            format!("{they} stop{s} running by cron expression. Jobs that exist already still run.")
        }
        BulkAction::Enable => {
            format!("{they} run{s} by cron expression again. The notes of pauses are removed.")
        }
    }
}

/// Renders the page of an action with remaining schedules. The script continues by itself, unless
/// the action stopped because of an error.
pub(super) fn unfinished(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    (action, rest): (BulkAction, &BulkTargets),
    view: &ListView,
    report: &BulkReport,
) -> Response {
    let form = html! {
        form.actions method="post" action=(visitor.action(dashboard, "/schedules/bulk"))
            data-continue[report.stopped.is_none()] {
            (view.hidden())
            (rest.hidden())
            (report.hidden())
            (question::sure())
            input type="hidden" name="action" value=(action.as_str());
            button type="submit" { "Continue" }
            a.button.second href=(view.at(dashboard, 0)) { "Stop here" }
        }
    };
    let content = html! {
        @if let Some(error) = &report.stopped {
            h1 { "Not all schedules were changed" }
            p.message.general role="alert" { (error.text()) }
            (report.sentences(action))
            p { "The others are as they were. You can continue now or later, and nothing is done twice." }
        } @else {
            h1 { "More schedules remain" }
            div role="status" { (report.sentences(action)) }
            p { "The rest follows in steps." }
        }
        (form)
    };
    let title = format!("{} schedules", action.verb());
    let mut page = shell::page(dashboard, visitor, ("Schedules", &title), &content);
    if let Some(error) = &report.stopped {
        *page.status_mut() = error.status();
    }
    page
}

/// Renders the counts above the list, with the way back if there is one.
pub(super) fn result(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    action: BulkAction,
    view: &ListView,
    report: &BulkReport,
) -> Markup {
    let undoable = report.undoable(action);
    html! {
        div.note.flash role="status" {
            (report.sentences(action))
            @if let (Some(opposite), false) = (action.opposite(), undoable.is_empty()) {
                form method="post" action=(visitor.action(dashboard, "/schedules/bulk")) {
                    (view.hidden())
                    input type="hidden" name="ids" value=(joined(undoable));
                    button.quiet type="submit" name="action" value=(opposite.as_str()) { "Undo" }
                }
            }
        }
    }
}
