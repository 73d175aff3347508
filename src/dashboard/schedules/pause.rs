//! The pause of a schedule with a note, and the note as pages show it.

use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};

use super::input::refusal;
use super::{flash, path_of};
use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::members::ActorNames;
use crate::dashboard::shell::{self, redirect};
use crate::dashboard::time::ShownZone;
use crate::dashboard::visitor::Visitor;
use crate::dashboard::widgets::{FormField, general_message};
use crate::dashboard::{Dashboard, DashboardParts, PageError, id_of, members, time};
use crate::domain::request_body::Field;
use crate::domain::schedule::Schedule;
use crate::domain::user::Role;

/// Asks for the note of a pause.
pub(super) async fn ask(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    visitor.needs(Role::Member)?;
    let schedule = dashboard.schedules.get(visitor.account(), id_of(&id)?).await?;
    Ok(page(&dashboard, &visitor, &schedule, ("", &FormMessages::default())))
}

/// Pauses a schedule with a note.
pub(super) async fn submit(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
    fields: FormFields,
) -> Result<Response, PageError> {
    let (account, call, id) = (visitor.account(), visitor.call()?, id_of(&id)?);
    let note = fields.text("note");
    let messages =
        match dashboard.schedules.pause(account, call, id, Field::Value(note.into())).await {
            Ok(_) => return Ok(redirect(&flash::address(&dashboard, id, false))),
            Err(error) => refusal(error)?,
        };
    let schedule = dashboard.schedules.get(account, id).await?;
    Ok(shell::refused(page(&dashboard, &visitor, &schedule, (note, &messages))))
}

fn page(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    schedule: &Schedule,
    (note, messages): (&str, &FormMessages),
) -> Response {
    let path = path_of(dashboard, schedule.id);
    let content = html! {
        h1 { "Pause " (schedule.name) }
        p { "The schedule stops running by its cron expression until it is resumed." }
        (general_message(messages))
        form method="post" action={ (path) "/pause" } {
            (FormField::new("note", "Note", note)
                .hint("For example the reason. At most 200 characters. Resuming removes the note.")
                .input("text", messages))
            div.actions {
                button type="submit" { "Pause" }
                a.button.second href=(path) { "Cancel" }
            }
        }
    };
    shell::page(dashboard, visitor, ("Schedules", "Pause a schedule"), &content)
}

/// Returns the authors of the notes of paused schedules, for [`note`].
pub(super) async fn authors(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    schedules: &[Schedule],
) -> Result<ActorNames, PageError> {
    if schedules.iter().all(|schedule| schedule.pause.is_none()) {
        return Ok(ActorNames::new());
    }
    members::addresses(dashboard, visitor).await
}

/// Renders the note of a paused schedule, if it has one.
pub(super) fn note(schedule: &Schedule, authors: &ActorNames, zone: ShownZone) -> Markup {
    let Some(pause) = &schedule.pause else { return html! {} };
    let author = authors.get(&pause.author).unwrap_or(&pause.author);
    html! {
        span.sub.pause { "Paused by " (author) " on " (time::instant(pause.at, zone)) ": " (pause.text) }
    }
}
