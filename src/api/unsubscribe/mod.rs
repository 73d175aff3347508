//! `GET` and `POST /unsubscribe/{account}/{channel}/{token}`: the link in the mails of a channel.
//!
//! The reader of the mail has no API key. `GET` changes nothing, because mail scanners follow
//! links. It shows a page with one button. `POST`, from the button or from a mail client (RFC
//! 8058), unsubscribes; its body is ignored. Both answer the same for any link, so they do not
//! reveal which accounts and channels exist.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderValue, header};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::authentication::AnonymousCaller;
use super::id::UnsubscribeLink;
use super::openapi::OpenPage;
use super::{ApiError, SharedApi};

const ASK: &str = include_str!("ask.html");
const DONE: &str = include_str!("done.html");

/// The content security policy: the pages load nothing and run no scripts.
const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'none'";

/// Returns the routes of unsubscribe links.
pub(super) fn routes() -> OpenApiRouter<SharedApi> {
    OpenApiRouter::default().routes(routes!(ask_to_unsubscribe, unsubscribe))
}

/// Get the page of an unsubscribe link
#[utoipa::path(
    get,
    path = "/unsubscribe/{account}/{channel}/{token}",
    tag = "Notifications",
    security(()),
    params(
        ("account" = String, Path, description = "From the link"),
        ("channel" = String, Path, description = "From the link"),
        ("token" = String, Path, description = "From the link"),
    ),
    responses((status = 200, description = "A page", body = String, content_type = "text/html"), OpenPage),
)]
async fn ask_to_unsubscribe(_: AnonymousCaller) -> Response {
    page(ASK)
}

/// Unsubscribe the reader of a mail
///
/// The channel receives no more alerts until its account verifies it again.
#[utoipa::path(
    post,
    path = "/unsubscribe/{account}/{channel}/{token}",
    tag = "Notifications",
    security(()),
    params(
        ("account" = String, Path, description = "From the link"),
        ("channel" = String, Path, description = "From the link"),
        ("token" = String, Path, description = "From the link"),
    ),
    responses((status = 200, description = "A page", body = String, content_type = "text/html"), OpenPage),
)]
async fn unsubscribe(
    State(api): State<SharedApi>,
    _: AnonymousCaller,
    UnsubscribeLink(link): UnsubscribeLink,
) -> Result<Response, ApiError> {
    if let Some((account, channel, token)) = link {
        api.notifications.unsubscribe(&account, &channel, token).await?;
    }
    Ok(page(DONE))
}

fn page(text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // The link alone allows unsubscribing: no other site may see it, no cache may keep it.
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
