//! `GET` and `POST /unsubscribe/{account}/{channel}/{token}`: the link in the mails of a channel.
//!
//! Its reader has no key. `GET` changes nothing, because scanners of mail follow links; it shows a
//! page with one button. `POST`, by the button or by a mail client (RFC 8058), unsubscribes; its
//! body does not matter. Both answer the same for any link, so they do not tell what exists.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderValue, header};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::guard::Visitor;
use super::id::UnsubscribeLink;
use super::openapi::OpenPage;
use super::{ApiError, SharedApi};

const ASK: &str = include_str!("ask.html");
const DONE: &str = include_str!("done.html");

/// The pages load nothing and run nothing.
const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'self'; \
                      frame-ancestors 'none'";

/// Its routes.
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
async fn ask_to_unsubscribe(_: Visitor) -> Response {
    page(ASK)
}

/// Unsubscribe the reader of a mail
///
/// The channel gets no more alerts until its account verifies it again.
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
    _: Visitor,
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
        // The link is the right to unsubscribe: no other site learns it, and no cache keeps it.
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
