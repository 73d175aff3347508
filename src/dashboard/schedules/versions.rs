//! The versions of a schedule's definition, with their authors and their changes.

use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};

use super::{path_of, version_changes};
use crate::dashboard::form::FormFields;
use crate::dashboard::members::{self, ActorNames};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, DashboardParts, PageError, id_of, shell, time, widgets};
use crate::domain::schedule::Schedule;
use crate::domain::user::Role;
use crate::store::{AuthoredVersion, StoredVersion};

/// The number of versions on a page. Each has a body of up to 256 KiB.
const PAGE: u8 = 20;

/// The start of the text of an operator at a command line.
const OPERATOR: &str = "operator:";

/// The names of users and keys, by the text of an actor.
type AuthorNames = ActorNames;

/// A page of versions, and the data to show them.
struct VersionList<'a> {
    schedule: &'a Schedule,
    /// The versions of the page, and the one before them if it is stored.
    versions: &'a [AuthoredVersion],
    names: &'a AuthorNames,
}

pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
    fields: FormFields,
) -> Result<Response, PageError> {
    let (account, id) = (visitor.account(), id_of(&id)?);
    let schedule = dashboard.schedules.get(account, id).await?;
    let from = fields.text("from").parse().ok();
    let found = dashboard.schedules.versions(account, id, from, u32::from(PAGE) + 1).await?;
    let names = names(&dashboard, &visitor, &found.versions).await?;
    let path = path_of(&dashboard, id);
    let next = found.versions.get(usize::from(PAGE));
    let older = next.map(|next| format!("{path}/versions?from={}", next.version.id));
    let newest = from.is_some().then(|| format!("{path}/versions"));
    let list = VersionList { schedule: &schedule, versions: &found.versions, names: &names };
    let content = html! {
        div.head {
            h1 { "Versions of " (schedule.name) }
            div.actions { a href=(path) { "Back to the schedule" } }
        }
        p.soft {
            "Each change of the definition creates a version. An old version is deleted once its \
             jobs are deleted, so each one is compared with the version before it that is still \
             stored. Changes of the name, the description, the state, the alerts and the rules for \
             late and overlapping runs create no version."
        }
        p { "Stored versions: " (found.total) }
        @for position in 0..found.versions.len().min(usize::from(PAGE)) {
            (list.render(&dashboard, &visitor, position))
        }
        (widgets::pager(newest, older))
    };
    Ok(shell::page(&dashboard, &visitor, ("Schedules", "Versions"), &content))
}

/// Returns the names of the authors of versions.
async fn names(
    dashboard: &Dashboard,
    visitor: &Visitor,
    versions: &[AuthoredVersion],
) -> Result<AuthorNames, PageError> {
    let authors = versions.iter().filter_map(|one| one.author.as_deref());
    members::actors(dashboard, visitor, authors).await
}

/// Returns the name of an author. Users who left the account and deleted keys are named by id.
fn author_name<'a>(author: Option<&'a str>, names: &'a AuthorNames) -> &'a str {
    match author {
        None => "unknown",
        Some(author) if author.starts_with(OPERATOR) => "operator",
        Some(author) => names.get(author).map_or(author, String::as_str),
    }
}

/// Returns a version as it is compared.
pub(super) fn readable(version: &StoredVersion) -> version_changes::ReadableDefinition<'_> {
    (&version.definition, version.unreadable)
}

impl VersionList<'_> {
    fn render(&self, dashboard: &DashboardParts, visitor: &Visitor, position: usize) -> Markup {
        let AuthoredVersion { version, author } = &self.versions[position];
        let is_current = version.id == self.schedule.version;
        let path = path_of(dashboard, self.schedule.id);
        html! {
            section {
                h2 {
                    (time::instant(version.created_at, visitor.zone))
                    " by " (author_name(author.as_deref(), self.names))
                }
                p {
                    code { (version.id) }
                    @if is_current {
                        " " span.state.success { "Current" }
                    } @else if visitor.may(Role::Member) {
                        " " a href={ (path) "/versions/" (version.id) "/use" } {
                            "Use this version again"
                        }
                    }
                }
                (self.differences(position))
            }
        }
    }

    /// Renders the differences from the version before.
    fn differences(&self, position: usize) -> Markup {
        let version = &self.versions[position].version;
        let Some(before) = self.versions.get(position + 1) else {
            return html! {
                @if version.created_at == self.schedule.created_at {
                    p { "The schedule was created with this version." }
                } @else {
                    p { "The versions before it were deleted, because no job needs them." }
                }
            };
        };
        version_changes::render(&version_changes::changes(
            readable(&before.version),
            readable(version),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authors_are_named() {
        let names = [("usr_1", "ann@example.com"), ("key_1", "key deploy")];
        let names = names.map(|(actor, name)| (actor.to_owned(), name.to_owned())).into();
        for (author, name) in [
            (Some("usr_1"), "ann@example.com"),
            (Some("key_1"), "key deploy"),
            (Some("usr_2"), "usr_2"),
            (Some("operator:root"), "operator"),
            (Some("service"), "service"),
            (None, "unknown"),
        ] {
            assert_eq!(author_name(author, &names), name);
        }
    }
}
