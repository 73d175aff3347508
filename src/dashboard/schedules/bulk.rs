//! Enables, pauses or deletes the schedules that are selected in the list.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::response::Response;
use maud::html;
use serde_json::json;

use super::view::View;
use crate::dashboard::form::{FormFields, request};
use crate::dashboard::shell::{self, redirect};
use crate::dashboard::text::counted;
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, DashboardParts, PageError};
use crate::domain::ScheduleId;
use crate::domain::schedule::Schedule;
use crate::schedules::{CommandError, ScheduleSwitch};

/// The maximum number of schedules of one action. A page of the list has fewer.
const MOST: usize = 100;

pub(super) async fn submit(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    fields: FormFields,
) -> Result<Response, PageError> {
    visitor.call()?;
    let (view, ids) = (View::read(&fields), selected(&fields)?);
    match fields.text("action") {
        "enable" => switch(&dashboard, &visitor, &ids, true).await?,
        "disable" => switch(&dashboard, &visitor, &ids, false).await?,
        "delete" if fields.has("sure") => delete(&dashboard, &visitor, &ids).await?,
        "delete" if !ids.is_empty() => return ask(&dashboard, &visitor, &view, &ids).await,
        _ => {}
    }
    Ok(redirect(&view.address(&dashboard)))
}

fn selected(fields: &FormFields) -> Result<BTreeSet<ScheduleId>, PageError> {
    let ids: Result<BTreeSet<ScheduleId>, _> =
        fields.all("id").map(str::parse::<ScheduleId>).collect();
    let ids = ids.map_err(|_| PageError::NotFound)?;
    if ids.len() > MOST {
        return Err(PageError::Refused(format!("Select at most {MOST} schedules.")));
    }
    Ok(ids)
}

async fn switch(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    ids: &BTreeSet<ScheduleId>,
    is_enabled: bool,
) -> Result<(), PageError> {
    let call = visitor.call()?;
    let request: ScheduleSwitch = request(&json!({ "enabled": is_enabled }))?;
    for id in ids {
        let request = request.clone();
        unless_gone(dashboard.schedules.toggle(visitor.account(), call, *id, request).await)?;
    }
    Ok(())
}

async fn delete(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    ids: &BTreeSet<ScheduleId>,
) -> Result<(), PageError> {
    let call = visitor.call()?;
    for id in ids {
        unless_gone(dashboard.schedules.delete(visitor.account(), call, *id).await)?;
    }
    Ok(())
}

/// Accepts that another user has deleted a schedule since the list was shown.
fn unless_gone<T>(result: Result<T, CommandError>) -> Result<Option<T>, PageError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(CommandError::NoSuchSchedule) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Asks before the schedules are deleted, which cannot be undone.
async fn ask(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    view: &View,
    ids: &BTreeSet<ScheduleId>,
) -> Result<Response, PageError> {
    let mut schedules: Vec<Schedule> = Vec::new();
    for id in ids {
        schedules.extend(unless_gone(dashboard.schedules.get(visitor.account(), *id).await)?);
    }
    let count = schedules.len();
    let delete = format!("Delete {}", counted(count as u64, "schedule"));
    let content = html! {
        h1 { (delete) "?" }
        p {
            @if count == 1 { "It stops" } @else { "They stop" } " running, and pending jobs fail. Past jobs stay until their retention ends. \
             This cannot be undone."
        }
        ul { @for schedule in &schedules { li { (schedule.name) } } }
        form.actions method="post" action=(dashboard.path("/schedules/bulk")) {
            (view.hidden())
            input type="hidden" name="sure" value="true";
            @for schedule in &schedules { input type="hidden" name="id" value=(schedule.id); }
            button.danger type="submit" name="action" value="delete" { (delete) }
            a.button.second href=(view.address(dashboard)) { "Keep " @if count == 1 { "it" } @else { "them" } }
        }
    };
    Ok(shell::page(dashboard, visitor, ("Schedules", "Delete schedules"), &content))
}
