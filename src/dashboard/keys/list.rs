//! The list of the keys, and the form of a new one.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::table::{self, Column::Text};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::widgets::{self, FormField, general_message};
use crate::dashboard::{Dashboard, DashboardParts, PageError, shell, time};
use crate::domain::Timestamp;
use crate::domain::key::KeyRecord;
use crate::domain::user::Role;

const SCOPES: [(&str, &str); 2] = [("write", "Read and change"), ("read", "Read only")];
/// The lifetimes to choose from, in days.
pub(super) const LIFETIMES: [(&str, &str); 4] =
    [("never", "Never"), ("30", "In 30 days"), ("90", "In 90 days"), ("365", "In 365 days")];
/// The times for which a replaced key keeps working, in seconds.
pub(super) const OVERLAPS: [(&str, &str); 4] = [
    ("86400", "Old key ends in 24 hours"),
    ("0", "Old key ends now"),
    ("3600", "Old key ends in 1 hour"),
    ("604800", "Old key ends in 7 days"),
];

pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
) -> Result<Response, PageError> {
    render(&dashboard, &visitor, &FormFields::default(), &FormMessages::default()).await
}

/// Renders the list, and below it the form of a new key.
pub(super) async fn render(
    dashboard: &Dashboard,
    visitor: &Visitor,
    fields: &FormFields,
    messages: &FormMessages,
) -> Result<Response, PageError> {
    let account = visitor.load_account(dashboard).await?;
    let keys = dashboard.accounts.keys(&account).await?;
    let is_owner = visitor.may(Role::Owner);
    let content = html! {
        h1 { "API keys" }
        p.soft { "Programs call the API with a key, in the header " code { "x-api-key" } "." }
        @if keys.is_empty() {
            (widgets::empty("No key yet. Create one to call the API.", &html! {}))
        } @else {
            (table(dashboard, visitor, &keys, is_owner))
        }
        @if is_owner {
            (form(dashboard, fields, messages))
        } @else {
            p.soft { "Only owners of the account create, rotate and revoke keys." }
        }
    };
    Ok(shell::page(dashboard, visitor, ("API keys", "API keys"), &content))
}

fn table(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    keys: &[KeyRecord],
    is_owner: bool,
) -> Markup {
    let columns = ["Key", "State", "Scope", "Created", "Last used", "Expires", "Change"].map(Text);
    let shown = if is_owner { &columns[..] } else { &columns[..columns.len() - 1] };
    table::render_stacked(
        "Keys, newest first",
        shown,
        &html! { @for key in keys { (row(dashboard, visitor, key, is_owner)) } },
    )
}

fn row(dashboard: &DashboardParts, visitor: &Visitor, key: &KeyRecord, is_owner: bool) -> Markup {
    let (now, zone) = (dashboard.clock.now(), visitor.zone);
    let (class, state) = state(key, now);
    let instant = |at: Option<Timestamp>, none: &str| match at {
        Some(at) => time::relative(at, now, zone),
        None => html! { (none) },
    };
    html! {
        tr {
            th scope="row" { (key.name) span.sub { (key.id) } }
            td { span class=(class) { (state) } }
            td { (scope(key)) }
            td data-label="Created" { (instant(Some(key.created_at), "")) }
            td data-label="Last used" { (instant(key.last_used_at, "Never")) }
            td data-label="Expires" { (instant(key.expires_at, "Never")) }
            @if is_owner { td { @if state == "Active" { (changes(dashboard, key)) } } }
        }
    }
}

/// Returns the scope of a key in the words of the form.
fn scope(key: &KeyRecord) -> &'static str {
    SCOPES.iter().find(|(value, _)| *value == key.scope.as_str()).map_or("", |(_, words)| *words)
}

fn state(key: &KeyRecord, now: Timestamp) -> (&'static str, &'static str) {
    if key.revoked_at.is_some() {
        ("state off", "Revoked")
    } else if key.expires_at.is_some_and(|at| at <= now) {
        ("state off", "Expired")
    } else {
        ("state success", "Active")
    }
}

fn changes(dashboard: &DashboardParts, key: &KeyRecord) -> Markup {
    let path = |verb: &str| dashboard.path(&format!("/keys/{}/{verb}", key.id));
    let control = format!("overlap-{}", key.id);
    html! {
        form.actions method="post" action=(path("rotate")) {
            label.hidden for=(control) { "The old key after the rotation" }
            select id=(control) name="overlap" {
                @for (value, text) in OVERLAPS { option value=(value) { (text) } }
            }
            button.quiet type="submit" { "Rotate" }
            a href=(path("revoke")) { "Revoke" }
        }
    }
}

fn form(dashboard: &DashboardParts, fields: &FormFields, messages: &FormMessages) -> Markup {
    let value = |name| fields.text(name);
    html! {
        h2 { "New key" }
        (general_message(messages))
        form method="post" action=(dashboard.path("/keys")) {
            div.columns {
                (FormField::new("name", "Name", value("name"))
                    .hint("For example, the program that uses it.")
                    .required().input("text", messages))
                (FormField::new("scope", "Scope", value("scope")).select(&SCOPES, messages))
                (FormField::new("expires", "Expires", value("expires")).select(&LIFETIMES, messages))
            }
            button type="submit" { "Create key" }
        }
    }
}
