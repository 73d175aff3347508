//! Signing in and out.

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};
use maud::{Markup, html};
use serde::Deserialize;

use super::oidc::provider_link;
use super::{entered, messages, refused, shown};
use crate::accounts::{SignIn, no_session_cookie, session_of};
use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::shell::redirect;
use crate::dashboard::visitor::VisitorAddress;
use crate::dashboard::widgets::{FormField, general_message};
use crate::dashboard::{Dashboard, DashboardParts, PageError, cookies};

/// The query of the page: the page to show after signing in.
#[derive(Deserialize)]
pub(super) struct NextPage {
    #[serde(default)]
    next: String,
}

pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    Query(NextPage { next }): Query<NextPage>,
) -> Response {
    shown(&dashboard, "Sign in", &form(&dashboard, "", &next, &FormMessages::default()))
}

pub(super) async fn submit(
    State(dashboard): State<Dashboard>,
    VisitorAddress(address): VisitorAddress,
    headers: HeaderMap,
    fields: FormFields,
) -> Response {
    let previous = session_of(cookies::texts(&headers));
    let (email, next) = (fields.text("email"), fields.text("next"));
    let password = fields.text("password");
    let sign_in = SignIn { email, password, address, previous: previous.as_ref() };
    match dashboard.users.sign_in(sign_in).await {
        Ok(signed_in) => entered(&dashboard, &signed_in, next),
        Err(error) => match messages(error) {
            Ok(messages) => {
                refused(&dashboard, "Sign in", &form(&dashboard, email, next, &messages))
            }
            Err(error) => error.into_response(),
        },
    }
}

fn form(dashboard: &DashboardParts, email: &str, next: &str, messages: &FormMessages) -> Markup {
    html! {
        h1 { "Sign in" }
        (general_message(messages))
        form method="post" action=(dashboard.path("/sign-in")) {
            (FormField::new("email", "E-mail address", email).required().input("email", messages))
            (FormField::new("password", "Password", "").required().input("password", messages))
            input type="hidden" name="next" value=(next);
            button type="submit" { "Sign in" }
        }
        (provider_link(dashboard, next))
        p { a href=(dashboard.path("/forgotten")) { "Forgotten password?" } }
        p { "No account yet? " a href=(dashboard.path("/sign-up")) { "Sign up" } }
    }
}

pub(super) async fn sign_out(
    State(dashboard): State<Dashboard>,
    VisitorAddress(address): VisitorAddress,
    headers: HeaderMap,
) -> Response {
    if let Some(token) = session_of(cookies::texts(&headers))
        && let Err(error) = dashboard.users.sign_out(&token, address).await
    {
        return PageError::from(error).into_response();
    }
    let mut response = redirect(&dashboard.path("/sign-in"));
    let cookie = HeaderValue::try_from(no_session_cookie()).expect("a fixed text");
    response.headers_mut().append(header::SET_COOKIE, cookie);
    response
}
