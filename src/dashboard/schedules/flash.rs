//! The note on the page of a schedule after it was paused or resumed, with the way back.

use maud::{Markup, html};

use super::path_of;
use crate::dashboard::DashboardParts;
use crate::dashboard::form::FormFields;
use crate::dashboard::visitor::Visitor;
use crate::domain::ScheduleId;
use crate::domain::schedule::Schedule;
use crate::domain::user::Role;

/// The query field that names the change that was just made.
const DONE: &str = "done";

/// Returns the address of the page of a schedule after it was paused or resumed.
pub(super) fn address(dashboard: &DashboardParts, id: ScheduleId, is_enabled: bool) -> String {
    let change = if is_enabled { "resumed" } else { "paused" };
    format!("{}?{DONE}={change}", path_of(dashboard, id))
}

/// Renders the note, as long as the schedule is in the state that the address names.
pub(super) fn note(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    schedule: &Schedule,
    fields: &FormFields,
) -> Markup {
    let words = match (fields.text(DONE), schedule.is_enabled) {
        ("paused", false) => "The schedule is paused.",
        ("resumed", true) => "The schedule is resumed.",
        _ => return html! {},
    };
    html! {
        div.note.flash role="status" {
            p { (words) }
            @if visitor.may(Role::Member) {
                form method="post" action={ (path_of(dashboard, schedule.id)) "/toggle" } {
                    input type="hidden" name="enabled" value=(!schedule.is_enabled);
                    button.quiet type="submit" { "Undo" }
                }
            }
        }
    }
}
