//! The pages for people who have not signed in: sign-in with a password or an OpenID provider,
//! sign-up, reset of a password, invitations, and the link that `punctual dev` prints.

mod first;
mod invitation;
mod oidc;
mod reset;
mod sign_in;
mod sign_up;

use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};
use http::{HeaderValue, StatusCode, header};
use maud::Markup;

use super::form::FormMessages;
use super::shell::{self, html_response, redirect};
use super::{Dashboard, DashboardParts, PageError};
use crate::accounts::{SignedIn, session_cookie};

pub(super) fn routes() -> Router<Dashboard> {
    Router::new()
        .route("/dashboard/sign-in", get(sign_in::show).post(sign_in::submit))
        .route("/dashboard/sign-out", post(sign_in::sign_out))
        .route("/dashboard/sign-up", get(sign_up::show).post(sign_up::submit))
        .route("/dashboard/oidc", get(oidc::start))
        .route("/dashboard/oidc/callback", get(oidc::finish))
        .route("/dashboard/first/{token}", get(first::show).post(first::enter))
        .route("/dashboard/forgotten", get(reset::ask).post(reset::mail))
        .route("/reset", get(reset::show).post(reset::submit))
        .route("/invitation", get(invitation::show).post(invitation::submit))
}

/// Returns the answer to a sign-in: the session's cookie, and the way to a page.
fn entered(dashboard: &DashboardParts, signed_in: &SignedIn, next: &str) -> Response {
    let mut response = redirect(&local(dashboard, next));
    response.headers_mut().append(header::SET_COOKIE, session(dashboard, signed_in));
    response
}

/// Returns the cookie of a new session.
fn session(dashboard: &DashboardParts, signed_in: &SignedIn) -> HeaderValue {
    let lifetime = signed_in.ends_at.since(dashboard.clock.now());
    let cookie = session_cookie(&signed_in.token, lifetime);
    HeaderValue::try_from(cookie).expect("a cookie is made of printable letters")
}

/// Returns the path of a page of this dashboard. Any other text, such as the address of another
/// site, leads to the overview.
fn local(dashboard: &DashboardParts, next: &str) -> String {
    let overview = dashboard.path("");
    let is_page = next == overview || next.starts_with(&format!("{overview}/"));
    let is_plain = next.chars().all(|letter| letter.is_ascii_graphic() && letter != '\\');
    let climbs = next.contains("..") || next.to_ascii_lowercase().contains("%2e");
    if is_page && is_plain && !climbs { next.to_owned() } else { overview }
}

/// Renders a page with a form that was refused.
fn refused(dashboard: &DashboardParts, title: &str, content: &Markup) -> Response {
    html_response(StatusCode::UNPROCESSABLE_ENTITY, shell::bare(dashboard, title, content))
}

/// Renders a page with a form.
fn shown(dashboard: &DashboardParts, title: &str, content: &Markup) -> Response {
    html_response(StatusCode::OK, shell::bare(dashboard, title, content))
}

/// Returns the messages of a failed command, beside the field that it is about. A fault of the
/// service is an error of the page.
fn messages(error: crate::accounts::UserError) -> Result<FormMessages, PageError> {
    use crate::accounts::UserError;
    use crate::domain::field_errors::FieldErrors;
    match error {
        UserError::Store(_) => Err(error.into()),
        UserError::Address(_) => {
            Ok(FormMessages::of_fields(FieldErrors::of("email", error.to_string())))
        }
        UserError::Password(_) => {
            Ok(FormMessages::of_fields(FieldErrors::of("password", error.to_string())))
        }
        UserError::Name(_) => {
            Ok(FormMessages::of_fields(FieldErrors::of("account", error.to_string())))
        }
        other => Ok(FormMessages::general(&other.to_string())),
    }
}
