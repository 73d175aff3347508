//! The visitor's own password and sessions.

use maud::{Markup, html};

use crate::dashboard::form::FormMessages;
use crate::dashboard::table;
use crate::dashboard::table::Column::Text;
use crate::dashboard::visitor::Visitor;
use crate::dashboard::widgets::{self, FormField, general_message};
use crate::dashboard::{DashboardParts, time};
use crate::store::Session;

/// Renders the form of the password, and the sessions.
pub(super) fn section(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    sessions: &[Session],
    messages: &FormMessages,
) -> Markup {
    html! {
        h2 #password { "Your password" }
        (general_message(messages))
        form method="post" action=(dashboard.path("/account/password")) {
            div.columns {
                (FormField::new("present", "Current password", "").required()
                    .input("password", messages))
                (FormField::new("new", "New password", "").required()
                    .hint("At least 10 characters. Your other sessions end.")
                    .input("new-password", messages))
            }
            button.second type="submit" { "Change password" }
        }
        h2 #sessions { "Your sessions" }
        (session_table(visitor, sessions))
        (widgets::action(
            &dashboard.path("/account/sign-out-everywhere"),
            "Sign out everywhere",
            "danger",
        ))
    }
}

fn session_table(visitor: &Visitor, sessions: &[Session]) -> Markup {
    let zone = visitor.zone;
    html! {
        (table::render(
            "Your sessions, newest first",
            &[Text("Signed in"), Text("Expires if unused"), Text("Expires at the latest")],
            &html! {
                @for session in sessions {
                    tr {
                        th scope="row" {
                            (time::instant(session.created_at, zone))
                            @if session.id == visitor.visit.session.id { " (this session)" }
                        }
                        td { (time::instant(session.expires_at, zone)) }
                        td { (time::instant(session.ends_at, zone)) }
                    }
                }
            },
        ))
    }
}
