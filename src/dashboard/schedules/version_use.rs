//! Using an old version of a schedule's definition again.

use axum::extract::{Path, State};
use axum::response::Response;
use maud::html;
use serde_json::json;

use super::versions::readable;
use super::{input, path_of, version_changes};
use crate::dashboard::form::{FormFields, FormMessages, request};
use crate::dashboard::shell::{self, redirect};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::widgets::general_message;
use crate::dashboard::{Dashboard, DashboardParts, PageError, id_of, time};
use crate::domain::schedule::{Definition, Schedule};
use crate::domain::user::Role;
use crate::schedules::ScheduleUpdate;
use crate::store::StoredVersion;

/// The field with the revision of the schedule that the page shows.
const REVISION: &str = "revision";
/// The message if the schedule has changed since the page was shown.
const OUTDATED: &str = "The schedule was changed while this page was open. Check the changes again";
/// The message if the stored body or headers are lost.
const UNREADABLE: &str = "The body or headers of this version cannot be decrypted";

/// A schedule and one of its versions.
struct VersionChoice {
    schedule: Schedule,
    version: StoredVersion,
}

/// Shows the changes if an old version is used again, and asks for confirmation.
pub(super) async fn ask(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path((id, version)): Path<(String, String)>,
) -> Result<Response, PageError> {
    visitor.needs(Role::Member)?;
    let choice = VersionChoice::read(&dashboard, &visitor, (&id, &version)).await?;
    Ok(choice.page(&dashboard, &visitor, &choice.hindrance()))
}

/// Changes the definition into that of an old version.
pub(super) async fn submit(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path((id, version)): Path<(String, String)>,
    fields: FormFields,
) -> Result<Response, PageError> {
    let call = visitor.call()?;
    let choice = VersionChoice::read(&dashboard, &visitor, (&id, &version)).await?;
    let mut messages = choice.hindrance();
    if messages.is_empty() {
        messages = if fields.text(REVISION) == choice.schedule.revision.to_string() {
            let (id, request) = (choice.schedule.id, update(&choice.version.definition)?);
            match dashboard.schedules.update(visitor.account(), call, id, request).await {
                Ok(_) => return Ok(redirect(&path_of(&dashboard, id))),
                Err(error) => input::refusal(error)?,
            }
        } else {
            FormMessages::general(OUTDATED)
        };
    }
    Ok(shell::refused(choice.page(&dashboard, &visitor, &messages)))
}

/// Returns the request that sets all fields of a definition.
fn update(definition: &Definition) -> Result<ScheduleUpdate, PageError> {
    let Definition {
        cron_expression,
        timezone,
        endpoint,
        http_method,
        body,
        headers,
        max_retries,
        timeout_seconds,
        expected_status_codes,
        sign_requests,
    } = definition;
    request(&json!({
        "cronExpression": cron_expression,
        "timezone": timezone,
        "endpoint": endpoint,
        "httpMethod": http_method.as_str(),
        "body": body,
        "headers": headers,
        "maxRetries": max_retries,
        "timeoutSeconds": timeout_seconds,
        "expectedStatusCodes": expected_status_codes,
        "signRequests": sign_requests,
    }))
}

impl VersionChoice {
    async fn read(
        dashboard: &DashboardParts,
        visitor: &Visitor,
        (id, version): (&str, &str),
    ) -> Result<Self, PageError> {
        let (account, id, version) = (visitor.account(), id_of(id)?, id_of(version)?);
        let schedule = dashboard.schedules.get(account, id).await?;
        let found = dashboard.schedules.versions(account, id, Some(version), 1).await?;
        let found = found.versions.into_iter().next().filter(|one| one.version.id == version);
        let found = found.ok_or(PageError::NotFound)?;
        Ok(Self { schedule, version: found.version })
    }

    /// Returns the reason why the version cannot be used, if there is one.
    fn hindrance(&self) -> FormMessages {
        let lost = self.version.unreadable;
        if lost.body || lost.headers {
            FormMessages::general(UNREADABLE)
        } else {
            FormMessages::default()
        }
    }

    fn page(
        &self,
        dashboard: &DashboardParts,
        visitor: &Visitor,
        messages: &FormMessages,
    ) -> Response {
        let Self { schedule, version } = self;
        let current = (&schedule.definition, schedule.unreadable);
        let changes = version_changes::changes(current, readable(version));
        let path = path_of(dashboard, schedule.id);
        let is_usable = self.hindrance().is_empty() && !changes.is_empty();
        let content = html! {
            h1 { "Use an old version of " (schedule.name) " again?" }
            p {
                "The definition becomes that of " (time::instant(version.created_at, visitor.zone))
                ". Jobs that exist keep their version."
            }
            (general_message(messages))
            @for (field, message) in messages.of_all_fields() {
                p.message.general { (field) ": " (message) }
            }
            @if changes.is_empty() {
                p { "The current definition is the same." }
            } @else {
                (version_changes::render(&changes))
            }
            form.actions method="post" action={ (path) "/versions/" (version.id) "/use" } {
                input type="hidden" name=(REVISION) value=(schedule.revision);
                @if is_usable { button type="submit" { "Use this version" } }
                a.button.second href={ (path) "/versions" } { "Cancel" }
            }
        };
        shell::page(dashboard, visitor, ("Schedules", "Use an old version"), &content)
    }
}
