//! The audit log of the account. Its filters and its position are in the address.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};

use crate::dashboard::form::FormFields;
use crate::dashboard::members::ActorNames;
use crate::dashboard::table;
use crate::dashboard::table::Column::Text;
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, DashboardParts, PageError, members, shell, time, widgets};
use crate::domain::AuditId;
use crate::domain::audit::Action;
use crate::store::{AuditEntry, AuditQuery};

const PAGE_ENTRIES: u32 = 50;

pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    fields: FormFields,
) -> Result<Response, PageError> {
    let query = read(&fields);
    let page = dashboard.accounts.audit_log(visitor.account(), &query).await?;
    let actors = page.entries.iter().map(|entry| entry.actor.as_str());
    let names = members::actors(&dashboard, &visitor, actors).await?;
    let last = page.entries.last().filter(|_| page.has_more);
    let older = last.map(|last| address(&dashboard, &query, Some(last.id)));
    let newest = query.after.is_some().then(|| address(&dashboard, &query, None));
    let content = html! {
        div.head {
            h1 { "Audit log" }
            div.actions { a href=(dashboard.path("/account")) { "Back to the account" } }
        }
        p.soft { "All changes of the account and its objects, with their actors and origins." }
        (filter_form(&dashboard, &query))
        @if page.entries.is_empty() {
            p.soft { "No entry matches." }
        } @else {
            (table(&visitor, &page.entries, &names))
        }
        (widgets::pager(newest, older))
    };
    Ok(shell::page(&dashboard, &visitor, ("Account", "Audit log"), &content))
}

fn read(fields: &FormFields) -> AuditQuery {
    // PostgreSQL cannot search for a NUL character, and no actor has one.
    let actor = fields.text("actor").replace('\0', "");
    let actor = actor.trim();
    AuditQuery {
        from: None,
        to: None,
        actor: (!actor.is_empty()).then(|| actor.to_owned()),
        action: fields.text("action").parse().ok(),
        after: fields.text("after").parse().ok(),
        limit: PAGE_ENTRIES,
    }
}

/// Returns the address of another page of the same list.
fn address(dashboard: &DashboardParts, query: &AuditQuery, after: Option<AuditId>) -> String {
    let after = after.map(|id| id.to_string()).unwrap_or_default();
    let pairs = [
        ("action", query.action.map_or("", Action::as_str)),
        ("actor", query.actor.as_deref().unwrap_or_default()),
        ("after", after.as_str()),
    ];
    dashboard.address("/account/audit", pairs)
}

fn filter_form(dashboard: &DashboardParts, query: &AuditQuery) -> Markup {
    let path = dashboard.path("/account/audit");
    html! {
        form.filters method="get" action=(path) {
            (widgets::filter(
                "Action",
                "action",
                Action::ALL.iter().map(|one| (one.as_str(), one.as_str())),
                query.action.map_or("", Action::as_str),
            ))
            label {
                "Actor"
                input type="text" name="actor" value=(query.actor.as_deref().unwrap_or_default())
                    placeholder="usr_… or key_…";
            }
            button.second type="submit" { "Filter" }
            @if query.action.is_some() || query.actor.is_some() { a href=(path) { "Show all" } }
        }
    }
}

fn table(visitor: &Visitor, entries: &[AuditEntry], names: &ActorNames) -> Markup {
    html! {
        (table::render(
            "Entries, newest first",
            &[Text("Time"), Text("Actor"), Text("Action"), Text("Object"), Text("Origin")],
            &html! {
                @for entry in entries {
                    tr {
                        th scope="row" { (time::instant(entry.id.timestamp(), visitor.zone)) }
                        td {
                            @if let Some(name) = names.get(&entry.actor) {
                                (name) span.sub { (entry.actor) }
                            } @else {
                                (entry.actor)
                            }
                        }
                        td { code { (entry.action) } }
                        td { span.id { (entry.object) } }
                        td { (entry.origin) }
                    }
                }
            },
        ))
    }
}
