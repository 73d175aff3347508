//! The API reference: `GET /openapi.json`, `GET /docs` and its files, all served from the binary.
//!
//! The page is Swagger UI. It loads nothing from other hosts and has no inline script, so it can be
//! served under a strict content security policy.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderValue, StatusCode, header};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::id::FileInPath;
use super::openapi::{NoSuchFile, Unspecific};
use super::{ApiError, SharedApi};

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const JSON: &str = "application/json";

/// The content security policy. Swagger UI sets styles from its script, which the policy allows.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' \
                      data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Returns the routes of the reference.
pub(super) fn routes() -> OpenApiRouter<SharedApi> {
    OpenApiRouter::default()
        .routes(routes!(get_document))
        .routes(routes!(get_reference))
        .routes(routes!(get_reference_file))
        .route("/docs/", get(redirect_to_reference))
}

/// Redirects `/docs/` to the reference. This is a convenience, not part of the documented API.
async fn redirect_to_reference(State(api): State<SharedApi>) -> Response {
    let page = format!("{}/docs", api.base_path.as_str());
    let location = [(header::LOCATION, page.as_str())];
    (StatusCode::TEMPORARY_REDIRECT, location, format!("The API reference is at {page}\n"))
        .into_response()
}

/// Get this document
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "Reference",
    security(()),
    responses((status = 200, description = "OpenAPI 3.1", body = Object), Unspecific),
)]
async fn get_document(State(api): State<SharedApi>) -> Response {
    file(JSON, api.document.clone())
}

/// Get the interactive reference
#[utoipa::path(
    get,
    path = "/docs",
    tag = "Reference",
    security(()),
    responses((status = 200, description = "A page", body = String, content_type = "text/html"), Unspecific),
)]
async fn get_reference() -> Response {
    file(HTML, Bytes::from_static(include_bytes!("page.html")))
}

/// Get a file of the reference
#[utoipa::path(
    get,
    path = "/docs/{file}",
    tag = "Reference",
    security(()),
    params(("file" = String, Path, description = "The file's name")),
    responses(
        (status = 200, description = "The file", content(
            ("text/css"),
            ("text/javascript"),
        )),
        NoSuchFile,
        Unspecific,
    ),
)]
async fn get_reference_file(FileInPath(name): FileInPath) -> Result<Response, ApiError> {
    match name.as_deref() {
        Some("page.css") => Ok(file(STYLE, Bytes::from_static(include_bytes!("page.css")))),
        Some("page.js") => Ok(file(SCRIPT, Bytes::from_static(include_bytes!("page.js")))),
        Some(name @ "swagger-ui.css") => swagger(name, STYLE),
        Some(name @ "swagger-ui-bundle.js") => swagger(name, SCRIPT),
        _ => Err(ApiError::not_found("Not found")),
    }
}

fn swagger(name: &str, content_type: &'static str) -> Result<Response, ApiError> {
    let config = Arc::new(utoipa_swagger_ui::Config::from("openapi.json"));
    match utoipa_swagger_ui::serve(name, config) {
        Ok(Some(found)) => Ok(file(content_type, found.bytes.into_owned().into())),
        Ok(None) => Err(ApiError::internal("a file of the reference is not in the binary")),
        Err(error) => Err(ApiError::internal(error.to_string())),
    }
}

fn file(content_type: &'static str, bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    for (name, value) in [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "public, max-age=300"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
