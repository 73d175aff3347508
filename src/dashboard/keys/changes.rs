//! Creating, rotating and revoking keys. Only owners may do that.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use maud::html;

use super::list;
use crate::accounts::{AccountError, KeyRequest};
use crate::dashboard::address::api_address;
use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::question::{Question, choice_words, is_sure};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, DashboardParts, PageError, id_of, question, shell, widgets};
use crate::domain::KeyId;
use crate::domain::field_errors::{FieldErrors, choices};
use crate::domain::key::{ApiKey, KeyRecord, MAX_KEYS, Scope};
use crate::domain::user::Role;

const DAY: Duration = Duration::from_secs(86_400);

pub(super) async fn create(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    headers: HeaderMap,
    fields: FormFields,
) -> Result<Response, PageError> {
    visitor.needs(Role::Owner)?;
    let account = visitor.load_account(&dashboard).await?;
    let created = match request(&fields) {
        Ok(request) => dashboard.accounts.create_key(visitor.author(), &account, &request).await,
        Err(errors) => {
            let messages = FormMessages::of_fields(errors);
            let page = list::render(&dashboard, &visitor, &fields, &messages).await?;
            return Ok(shell::refused(page));
        }
    };
    let messages = match created {
        Ok(key) => return Ok(shown_once(&dashboard, &visitor, &headers, &key)),
        Err(AccountError::UnusableName(_)) => {
            FormMessages::of_fields(FieldErrors::of("name", "Use 1 to 100 printable characters"))
        }
        Err(AccountError::TooManyKeys(_)) => FormMessages::general(&format!(
            "The account already has {MAX_KEYS} active keys. Revoke one first"
        )),
        Err(error) => return Err(error.into()),
    };
    Ok(shell::refused(list::render(&dashboard, &visitor, &fields, &messages).await?))
}

/// Reads the form of a new key.
fn request(fields: &FormFields) -> Result<KeyRequest, FieldErrors> {
    let scope: Option<Scope> = fields.text("scope").parse().ok();
    let scope = scope.ok_or_else(|| FieldErrors::of("scope", choices(Scope::ALL)))?;
    let lifetime = fields.text("expires");
    if !list::LIFETIMES.iter().any(|(value, _)| *value == lifetime) {
        return Err(FieldErrors::of("expires", "Choose one of the lifetimes"));
    }
    let expires_in = lifetime.parse::<u32>().ok().map(|days| DAY * days);
    Ok(KeyRequest { name: fields.text("name").to_owned(), scope, expires_in })
}

/// Replaces a key by a new one, which is shown once, after a question.
pub(super) async fn rotate(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
    headers: HeaderMap,
    fields: FormFields,
) -> Result<Response, PageError> {
    visitor.needs(Role::Owner)?;
    let old = own_key(&dashboard, &visitor, &id).await?;
    let overlap = Duration::from_secs(fields.seconds("overlap", &list::OVERLAPS)?);
    if !is_sure(&fields) {
        let end = choice_words(&list::OVERLAPS, fields.text("overlap")).replace("Old", "The old");
        let question = Question {
            entry: "API keys",
            title: &format!("Rotate the key {}?", old.name),
            text: &format!(
                "A new key with the same name and scope is made and shown once. {end}; calls with \
                 it are refused after that. This cannot be undone."
            ),
            page: &format!("/keys/{}/rotate", old.id),
            fields: &[("overlap", fields.text("overlap"))],
            button: "Rotate key",
            keep: ("Keep it", "/keys"),
        };
        return Ok(question::ask(&dashboard, &visitor, &question));
    }
    match dashboard.accounts.rotate_key(visitor.author(), old.id, overlap).await {
        Ok(key) => Ok(shown_once(&dashboard, &visitor, &headers, &key)),
        Err(AccountError::KeyIsOver(_)) => {
            let why = "The key is revoked or expired. Create a new one.";
            Err(PageError::Refused(why.to_owned()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Asks for confirmation before a key is revoked.
pub(super) async fn ask(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    visitor.needs(Role::Owner)?;
    let key = own_key(&dashboard, &visitor, &id).await?;
    let path = dashboard.path(&format!("/keys/{}/revoke", key.id));
    let content = html! {
        h1 { "Revoke the key " (key.name) "?" }
        p { "Calls with it are refused within 5 seconds. This cannot be undone." }
        div.actions {
            (widgets::action(&path, "Revoke key", "danger"))
            a.button.second href=(dashboard.path("/keys")) { "Keep it" }
        }
    };
    Ok(shell::page(&dashboard, &visitor, ("API keys", "Revoke a key"), &content))
}

pub(super) async fn revoke(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    visitor.needs(Role::Owner)?;
    let key = own_key(&dashboard, &visitor, &id).await?;
    dashboard.accounts.revoke_key(visitor.author(), key.id).await?;
    Ok(shell::redirect(&dashboard.path("/keys")))
}

/// Returns a key of the visitor's account. The commands on keys work on those of any account.
async fn own_key(
    dashboard: &Dashboard,
    visitor: &Visitor,
    id: &str,
) -> Result<KeyRecord, PageError> {
    let id: KeyId = id_of(id)?;
    let account = visitor.load_account(dashboard).await?;
    let keys = dashboard.accounts.keys(&account).await?;
    keys.into_iter().find(|key| key.id == id).ok_or(PageError::NotFound)
}

/// Renders a new key. No other page shows it.
fn shown_once(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    headers: &HeaderMap,
    key: &ApiKey,
) -> Response {
    let api = api_address(dashboard, headers);
    let command = format!("curl -s '{api}/schedules' -H 'x-api-key: {}'", key.reveal());
    let content = html! {
        h1 { "Your new key" }
        p.note {
            "Copy it now. It is shown only once, because the service keeps only a hash of it."
        }
        (widgets::copyable(key.reveal()))
        (widgets::curl("Call the API with curl", &command))
        p { a.button href=(dashboard.path("/keys")) { "Done" } }
    };
    shell::page(dashboard, visitor, ("API keys", "Your new key"), &content)
}
