//! The page that the link of an invitation leads to: for a user who has signed in, and for a
//! new one, who signs up with it.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use maud::{Markup, html};

use super::oidc::provider_link;
use super::reset::code_field;
use super::sign_up::sign_up;
use super::{entered, messages, refused, shown};
use crate::accounts::{SignedInRequest, UserError, session_of};
use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::visitor::VisitorAddress;
use crate::dashboard::widgets::{FormField, general_message};
use crate::dashboard::{Dashboard, DashboardParts, PageError, cookies, shell};

const TITLE: &str = "Accept an invitation";
/// The name of the button that leads to the second step.
const CONTINUES: &str = "continue";

/// Shows the field of the code alone. A browser does not send the cookie of the session when a link
/// of a mail program is followed, so only the next step knows the user.
pub(super) async fn show(State(dashboard): State<Dashboard>) -> Response {
    shown(
        &dashboard,
        TITLE,
        &html! {
            h1 { (TITLE) }
            form method="post" action={ (dashboard.base_path) "/invitation" } {
                (code_field(""))
                button type="submit" name=(CONTINUES) value="true" { "Continue" }
            }
        },
    )
}

pub(super) async fn submit(
    State(dashboard): State<Dashboard>,
    VisitorAddress(address): VisitorAddress,
    headers: HeaderMap,
    fields: FormFields,
) -> Response {
    let visit = match visit(&dashboard, &headers, address).await {
        Ok(visit) => visit,
        Err(error) => return error.into_response(),
    };
    if fields.has(CONTINUES) {
        let form = form(&dashboard, visit.as_ref(), (&fields, &FormMessages::default()));
        return shown(&dashboard, TITLE, &form);
    }
    match accept(&dashboard, visit.as_ref(), &fields, address).await {
        Ok(response) => response,
        Err(error) => match messages(error) {
            Ok(messages) => {
                let form = form(&dashboard, visit.as_ref(), (&fields, &messages));
                refused(&dashboard, TITLE, &form)
            }
            Err(error) => error.into_response(),
        },
    }
}

/// Accepts the invitation, and shows the account that the user has joined.
async fn accept(
    dashboard: &DashboardParts,
    visit: Option<&SignedInRequest>,
    fields: &FormFields,
    address: std::net::IpAddr,
) -> Result<Response, UserError> {
    let code = fields.text("code");
    let Some(visit) = visit else {
        let signed_in = sign_up(dashboard, fields, Some(code), address).await?;
        return Ok(entered(dashboard, &signed_in, ""));
    };
    let account = dashboard.users.accept_invitation(visit, code).await?;
    Ok(shell::switch_account(account, &dashboard.path("")))
}

/// Returns the session of the visitor. A user without any account has one, too.
async fn visit(
    dashboard: &DashboardParts,
    headers: &HeaderMap,
    address: std::net::IpAddr,
) -> Result<Option<SignedInRequest>, PageError> {
    let Some(token) = session_of(cookies::texts(headers)) else { return Ok(None) };
    match dashboard.users.visit(&token, address).await {
        Ok(visit) => Ok(Some(visit)),
        Err(UserError::SignedOut) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn form(
    dashboard: &DashboardParts,
    visit: Option<&SignedInRequest>,
    (fields, messages): (&FormFields, &FormMessages),
) -> Markup {
    html! {
        h1 { (TITLE) }
        (general_message(messages))
        form method="post" action={ (dashboard.base_path) "/invitation" } {
            (code_field(fields.text("code")))
            @match visit {
                Some(visit) => {
                    p { "You join as " strong { (visit.session.email) } "." }
                    button type="submit" { "Join the account" }
                }
                None => {
                    (FormField::new("email", "E-mail address", fields.text("email"))
                        .hint("The address that the invitation was sent to.")
                        .required().input("email", messages))
                    (FormField::new("password", "Password", "")
                        .hint("At least 10 characters.").required().input("new-password", messages))
                    button type="submit" { "Sign up and join" }
                }
            }
        }
        @if visit.is_none() {
            (provider_link(dashboard, ""))
            p { "Already a user? " a href=(dashboard.path("/sign-in")) { "Sign in" }
                " first, then open the link again." }
        }
    }
}
