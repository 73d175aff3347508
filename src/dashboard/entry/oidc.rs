//! Sign-in with the OpenID provider: the way to the provider and back.

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use maud::{Markup, html};
use serde::Deserialize;

use super::{local, session};
use crate::accounts::{OidcAnswer, OidcError, SignedIn, UserError, session_of};
use crate::dashboard::shell::{self, html_response, redirect};
use crate::dashboard::text::sentence;
use crate::dashboard::visitor::VisitorAddress;
use crate::dashboard::{Dashboard, DashboardParts, PageError, cookies};

/// The error code of a sign-in that the person or the provider denied (RFC 6749, section 4.1.2.1).
const DENIED: &str = "access_denied";

/// The query of the start: the page to show after signing in.
#[derive(Deserialize)]
pub(super) struct StartQuery {
    #[serde(default)]
    next: String,
}

/// The query with which the provider sends the browser back.
#[derive(Deserialize)]
pub(super) struct AnswerQuery {
    code: Option<String>,
    state: Option<String>,
    error: Option<String>,
    iss: Option<String>,
}

/// Renders the link to the provider, if one is configured. It is not a form, because the content
/// security policy allows forms to lead to pages of this origin only.
pub(super) fn provider_link(dashboard: &DashboardParts, next: &str) -> Markup {
    html! {
        @if let Some(provider) = dashboard.users.provider() {
            p {
                a.button.second href=(dashboard.address("/oidc", [("next", next)])) {
                    "Sign in with " (provider.name())
                }
            }
        }
    }
}

/// Sends the browser to the provider.
pub(super) async fn start(
    State(dashboard): State<Dashboard>,
    VisitorAddress(address): VisitorAddress,
    headers: HeaderMap,
    Query(StartQuery { next }): Query<StartQuery>,
) -> Response {
    // The session before ends here, because the browser does not send its cookie with the answer.
    if let Some(token) = session_of(cookies::texts(&headers))
        && let Err(error) = dashboard.users.sign_out(&token, address).await
    {
        return PageError::from(error).into_response();
    }
    match dashboard.users.start_with_provider().await {
        Ok(start) => {
            let mut response = redirect(&start.url);
            let cookie = cookies::of_sign_in(&start.attempt, &next);
            response.headers_mut().append(header::SET_COOKIE, cookie);
            response
        }
        Err(error) => failed(&dashboard, error),
    }
}

/// Signs in with the provider's answer. Any answer ends the attempt.
pub(super) async fn finish(
    State(dashboard): State<Dashboard>,
    VisitorAddress(address): VisitorAddress,
    headers: HeaderMap,
    Query(query): Query<AnswerQuery>,
) -> Response {
    let (attempt, next) = cookies::sign_in_of(&headers).unzip();
    let answer = OidcAnswer {
        code: query.code.as_deref(),
        state: query.state.as_deref(),
        error: query.error.as_deref(),
        issuer: query.iss.as_deref(),
    };
    let users = &dashboard.users;
    let mut response = match users.finish_with_provider(attempt.as_ref(), answer, address).await {
        Ok(signed_in) => arrived(&dashboard, &signed_in, &next.unwrap_or_default()),
        Err(error) => failed(&dashboard, error),
    };
    response.headers_mut().append(header::SET_COOKIE, cookies::no_sign_in());
    response
}

/// Sends the browser to the requested page through a page of this origin: a browser does not send
/// the session cookie when it follows a redirect that began at the provider.
fn arrived(dashboard: &DashboardParts, signed_in: &SignedIn, next: &str) -> Response {
    let page = local(dashboard, next);
    let passage = shell::passage(&format!("0; url={page}"), &page, "Continue to the dashboard");
    let mut response = html_response(StatusCode::OK, passage);
    response.headers_mut().append(header::SET_COOKIE, session(dashboard, signed_in));
    response
}

/// Shows the reason of a failed sign-in, and the remedy.
fn failed(dashboard: &DashboardParts, error: UserError) -> Response {
    let Some(provider) = dashboard.users.provider() else {
        return PageError::NotFound.into_response();
    };
    let (status, title, text) = match error {
        UserError::Oidc(error) => of_provider(provider.name(), &error),
        UserError::EmailUnconfirmed
        | UserError::AddressUnproven(_)
        | UserError::OtherPerson(_)
        | UserError::NotInvited(_)
        | UserError::SignUpOff
        | UserError::NoSuchJoinAccount
        | UserError::Disabled => {
            let title = "You have no access".to_owned();
            (StatusCode::FORBIDDEN, title, sentence(&error.to_string()))
        }
        other => return PageError::from(other).into_response(),
    };
    let content = html! {
        h1 { (title) }
        p { (text) }
        p { a.button href=(dashboard.path("/sign-in")) { "Back to sign-in" } }
    };
    html_response(status, shell::bare(dashboard, &title, &content))
}

/// Returns the status, the title and the text of a failure at the provider. Only the log has the
/// reason, because it is for the operator.
fn of_provider(name: &str, error: &OidcError) -> (StatusCode, String, String) {
    match error {
        OidcError::OtherBrowser | OidcError::NoProvider => (
            StatusCode::UNPROCESSABLE_ENTITY,
            "Sign in again".to_owned(),
            "This sign-in was started in another browser, has already been used, or took more than \
             10 minutes. Start it again from the sign-in page."
                .to_owned(),
        ),
        OidcError::Refused(code) => {
            tracing::info!(%error, "sign-in with the OpenID provider refused");
            let text = if code == DENIED {
                format!(
                    "The sign-in was cancelled, or {name} does not let you use this service. Try \
                     again, or ask the administrator of {name}."
                )
            } else {
                format!("{name} refused the sign-in with the error {code}. Start it again.")
            };
            (StatusCode::FORBIDDEN, format!("{name} did not sign you in"), text)
        }
        OidcError::Unreachable(_) => {
            tracing::warn!(%error, "sign-in with the OpenID provider failed");
            let text = "Try again in a minute. If you have a password, you can sign in with it.";
            (StatusCode::SERVICE_UNAVAILABLE, format!("{name} does not respond"), text.to_owned())
        }
        OidcError::Unusable(_) | OidcError::SecretFile(_) | OidcError::IdToken(_) => {
            tracing::warn!(%error, "sign-in with the OpenID provider failed");
            let text = format!(
                "The answer of {name} cannot be used. Tell the operator of this service: its log \
                 has the reason under the request id of this response (header x-request-id). If \
                 you have a password, you can sign in with it."
            );
            (StatusCode::BAD_GATEWAY, format!("{name} cannot be used"), text)
        }
    }
}
