//! The secrets that sign the requests of the account.

use maud::{Markup, html};

use crate::dashboard::table;
use crate::dashboard::table::Column::Text;
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{DashboardParts, time, widgets};
use crate::domain::user::Role;
use crate::store::KnownSecret;

/// The times for which a replaced secret keeps signing, in seconds.
pub(super) const OVERLAPS: [(&str, &str); 4] =
    [("86400", "24 hours"), ("1", "1 second"), ("3600", "1 hour"), ("604800", "7 days")];

/// Renders the secrets, in clear text only if the visitor requested that.
pub(super) fn section(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    secrets: &[KnownSecret],
    is_clear: bool,
) -> Markup {
    html! {
        h2 #signing { "Signing secrets" }
        p.soft {
            "With them, the targets of schedules verify that requests come from this service."
        }
        (table::render(
            "Signing secrets, newest first",
            &[Text("Secret"), Text("State"), Text("Created")],
            &html! {
                @for secret in secrets { (row(dashboard, visitor, secret, is_clear)) }
            },
        ))
        @if visitor.may(Role::Owner) {
            (changes(dashboard, visitor, is_clear))
        } @else {
            p.soft { "Only owners of the account see and rotate them." }
        }
    }
}

fn row(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    known: &KnownSecret,
    is_clear: bool,
) -> Markup {
    let secret = known.secret.as_ref().filter(|_| is_clear).map(|secret| secret.reveal());
    html! {
        tr {
            th scope="row" {
                span.id { (known.id) }
                @if let Some(secret) = &secret {
                    (widgets::copyable(secret))
                }
            }
            td { (state(dashboard, visitor, known)) }
            td { (time::instant(known.created_at, visitor.zone)) }
        }
    }
}

fn state(dashboard: &DashboardParts, visitor: &Visitor, known: &KnownSecret) -> Markup {
    let now = dashboard.clock.now();
    html! {
        @match known.expires_at {
            Some(at) => {
                @if at <= now {
                    span.state.off { "Expired" }
                } @else {
                    span.state.pending {
                        "Signs, expires " (time::relative(at, now, visitor.zone))
                    }
                }
            }
            None => {
                @if known.secret.is_some() {
                    span.state.success { "Signs" }
                } @else {
                    span.state.failed { "Cannot be decrypted: rotate to repair it" }
                }
            }
        }
    }
}

fn changes(dashboard: &DashboardParts, visitor: &Visitor, is_clear: bool) -> Markup {
    html! {
        form.filters method="post" action=(visitor.action(dashboard, "/account/signing/rotate")) {
            label {
                "The old secret still signs for"
                select name="overlap" {
                    @for (value, text) in OVERLAPS { option value=(value) { (text) } }
                }
            }
            button.second type="submit" { "Rotate" }
        }
        @if !is_clear {
            (widgets::action(&visitor.action(dashboard, "/account/signing/show"),
                "Show the secrets", "quiet"))
            p.hint { "The audit log records that they were shown." }
        }
    }
}
