//! Asking for the reset of a forgotten password, and the page that the mailed link leads to.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::{messages, refused, shown};
use crate::accounts::{Password, UserError};
use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::visitor::VisitorAddress;
use crate::dashboard::widgets::{FormField, general_message};
use crate::dashboard::{Dashboard, DashboardParts};

const TITLE: &str = "Reset your password";

pub(super) async fn ask(State(dashboard): State<Dashboard>) -> Response {
    shown(&dashboard, TITLE, &question(&dashboard, "", &FormMessages::default()))
}

/// Mails the link. The answer does not tell whether the user exists.
pub(super) async fn mail(
    State(dashboard): State<Dashboard>,
    VisitorAddress(address): VisitorAddress,
    fields: FormFields,
) -> Response {
    let email = fields.text("email");
    match dashboard.users.request_reset(email, address).await {
        Ok(()) => shown(
            &dashboard,
            TITLE,
            &html! {
                h1 { (TITLE) }
                p { "If " strong { (email) } " is a user, a mail with a link is on its way. The link "
                    "works once, for an hour." }
                p { a href=(dashboard.path("/sign-in")) { "Back to sign-in" } }
            },
        ),
        Err(error) => match messages(error) {
            Ok(messages) => refused(&dashboard, TITLE, &question(&dashboard, email, &messages)),
            Err(error) => error.into_response(),
        },
    }
}

fn question(dashboard: &DashboardParts, email: &str, messages: &FormMessages) -> Markup {
    html! {
        h1 { (TITLE) }
        (general_message(messages))
        form method="post" action=(dashboard.path("/forgotten")) {
            (FormField::new("email", "E-mail address", email).required().input("email", messages))
            button type="submit" { "Mail a link" }
        }
        p { a href=(dashboard.path("/sign-in")) { "Back to sign-in" } }
    }
}

pub(super) async fn show(State(dashboard): State<Dashboard>) -> Response {
    shown(&dashboard, TITLE, &form(&dashboard, "", &FormMessages::default()))
}

pub(super) async fn submit(
    State(dashboard): State<Dashboard>,
    VisitorAddress(address): VisitorAddress,
    fields: FormFields,
) -> Response {
    match reset(&dashboard, &fields, address).await {
        Ok(()) => shown(
            &dashboard,
            TITLE,
            &html! {
                h1 { "Your password is changed" }
                p { "All your sessions have ended." }
                p { a.button href=(dashboard.path("/sign-in")) { "Sign in" } }
            },
        ),
        Err(error) => match messages(error) {
            Ok(messages) => {
                refused(&dashboard, TITLE, &form(&dashboard, fields.text("code"), &messages))
            }
            Err(error) => error.into_response(),
        },
    }
}

async fn reset(
    dashboard: &DashboardParts,
    fields: &FormFields,
    address: std::net::IpAddr,
) -> Result<(), UserError> {
    let password = Password::new(fields.text("password"))?;
    dashboard.users.complete_reset(fields.text("code"), &password, address).await
}

fn form(dashboard: &DashboardParts, code: &str, messages: &FormMessages) -> Markup {
    html! {
        h1 { (TITLE) }
        (general_message(messages))
        form method="post" action={ (dashboard.base_path) "/reset" } {
            (code_field(code))
            (FormField::new("password", "New password", "")
                .hint("At least 10 characters.").required().input("new-password", messages))
            button type="submit" { "Change the password" }
        }
    }
}

/// Renders the field of the code that follows the `#` of a mailed link. The script fills it.
pub(super) fn code_field(code: &str) -> Markup {
    html! {
        div.field {
            label for="code" { "Code of the link" }
            input #code name="code" value=(code) required autocomplete="off"
                data-from-link aria-describedby="code-hint";
            p.hint #code-hint { "The part of the link after the # sign." }
        }
    }
}
