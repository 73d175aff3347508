//! The members of the account, and the invitations to it.

use maud::{Markup, html};

use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::table;
use crate::dashboard::table::Column::Text;
use crate::dashboard::visitor::Visitor;
use crate::dashboard::widgets::{self, FormField, general_message};
use crate::dashboard::{DashboardParts, time};
use crate::domain::user::Role;
use crate::store::{AccountMember, Invitation};

/// The roles to choose from for an invited person.
const ROLES: [(&str, &str); 3] = [
    ("member", "member: also changes schedules and channels"),
    ("viewer", "viewer: sees everything"),
    ("owner", "owner: also manages members and keys"),
];

/// Renders the members. Owners can change them, and each member can leave.
pub(super) fn section(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    members: &[AccountMember],
) -> Markup {
    html! {
        h2 #members { "Members" }
        (table::render_stacked(
            "Members of the account",
            &[Text("E-mail address"), Text("Role"), Text("Since"), Text("Change")],
            &html! {
                @for member in members { (row(dashboard, visitor, member)) }
            },
        ))
    }
}

fn row(dashboard: &DashboardParts, visitor: &Visitor, member: &AccountMember) -> Markup {
    let is_owner = visitor.may(Role::Owner);
    let is_self = member.user == visitor.visit.session.user;
    let action =
        |change| visitor.action(dashboard, &format!("/account/members/{}/{change}", member.user));
    let remove = if is_self { "Leave" } else { "Remove" };
    html! {
        tr {
            th scope="row" { (member.email) @if is_self { " (you)" } }
            td { @if is_owner { (role_form(&action("role"), member)) } @else { (member.role) } }
            td data-label="Since" { (time::instant(member.since, visitor.zone)) }
            td {
                @if is_owner || is_self {
                    form.inline method="post" action=(action("remove")) {
                        button.quiet type="submit" { (remove) }
                    }
                }
            }
        }
    }
}

fn role_form(action: &str, member: &AccountMember) -> Markup {
    let control = format!("role-{}", member.user);
    html! {
        form.actions method="post" action=(action) {
            label.hidden for=(control) { "Role of " (member.email) }
            select id=(control) name="role" {
                @for role in Role::ALL {
                    option value=(role) selected[*role == member.role] { (role) }
                }
            }
            button.quiet type="submit" { "Set role" }
        }
    }
}

/// Renders the open invitations, and the form of a new one.
pub(super) fn invitations(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    invitations: &[Invitation],
    (fields, messages): &(FormFields, FormMessages),
) -> Markup {
    html! {
        h2 #invitations { "Invitations" }
        @if !invitations.is_empty() { (invitation_table(dashboard, visitor, invitations)) }
        (general_message(messages))
        form method="post" action=(visitor.action(dashboard, "/account/invitations")) {
            div.columns {
                (FormField::new("email", "E-mail address", fields.text("email"))
                    .hint("A mail with a link is sent there. The link works once, for a week.")
                    .required().input("email", messages))
                (FormField::new("role", "Role", fields.text("role")).select(&ROLES, messages))
            }
            button.second type="submit" { "Invite" }
        }
    }
}

fn invitation_table(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    invitations: &[Invitation],
) -> Markup {
    html! {
        (table::render_stacked(
            "Open invitations, newest first",
            &[
                Text("E-mail address"),
                Text("Role"),
                Text("Invited"),
                Text("Expires"),
                Text("Change"),
            ],
            &html! {
                @for one in invitations {
                    @let path = format!("/account/invitations/{}/take-back", one.id);
                    tr {
                        th scope="row" { (one.email) }
                        td { (one.role) }
                        td data-label="Invited" { (time::instant(one.created_at, visitor.zone)) }
                        td data-label="Expires" { (time::instant(one.expires_at, visitor.zone)) }
                        td {
                            (widgets::action(
                                &visitor.action(dashboard, &path),
                                "Revoke",
                                "quiet",
                            ))
                        }
                    }
                }
            },
        ))
    }
}
