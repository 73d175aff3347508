//! Running, pausing and deleting a schedule.

use axum::extract::{Path, State};
use axum::response::Response;
use maud::html;
use serde_json::json;

use super::{flash, path_of};
use crate::dashboard::form::{FormFields, request};
use crate::dashboard::shell::{self, redirect};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, PageError, id_of};
use crate::domain::user::Role;

pub(super) async fn run(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    let (account, call, id) = (visitor.account(), visitor.call()?, id_of(&id)?);
    let job = dashboard.schedules.trigger(account, call, id).await?;
    Ok(redirect(&dashboard.path(&format!("/jobs/{job}"))))
}

pub(super) async fn toggle(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
    fields: FormFields,
) -> Result<Response, PageError> {
    let (call, id) = (visitor.call()?, id_of(&id)?);
    let is_enabled = fields.text("enabled") == "true";
    let request = request(&json!({ "enabled": is_enabled }))?;
    dashboard.schedules.toggle(visitor.account(), call, id, request).await?;
    Ok(redirect(&flash::address(&dashboard, id, is_enabled)))
}

/// Asks for confirmation before a schedule is deleted, which cannot be undone.
pub(super) async fn ask(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    visitor.needs(Role::Member)?;
    let id = id_of(&id)?;
    let schedule = dashboard.schedules.get(visitor.account(), id).await?;
    let path = path_of(&dashboard, id);
    let content = html! {
        h1 { "Delete " (schedule.name) "?" }
        p {
            "It stops running, and pending jobs fail. Past jobs stay until their retention ends. \
             This cannot be undone."
        }
        form.actions method="post" action={ (path) "/delete" } {
            button.danger type="submit" { "Delete schedule" }
            a.button.second href=(path) { "Keep it" }
        }
    };
    Ok(shell::page(&dashboard, &visitor, ("Schedules", "Delete schedule"), &content))
}

pub(super) async fn delete(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    let call = visitor.call()?;
    dashboard.schedules.delete(visitor.account(), call, id_of(&id)?).await?;
    Ok(redirect(&dashboard.path("/schedules")))
}
