//! The REST API: maps HTTP requests to commands and queries, and their results to answers.
//!
//! Place in the flow: an entry point for clients. Every request passes the layer in `middleware`
//! (request id, API key, rate limit, time limit), then the router picks one endpoint. Each endpoint
//! has a file of its own, in reading order: request, response, documentation, handler. A route is
//! registered together with its OpenAPI entry, so every route is documented. `openapi.json` beside
//! this file is a snapshot of the document, and a test says how to refresh it.
//!
//! Invariants:
//! - Every answer is JSON in the envelope, including errors and panics. The only exceptions are the
//!   documentation and the pages of unsubscribe links.
//! - Every answer under `/v1` carries the rate-limit headers, if limits are switched on.
//! - An object that does not exist and an object of another account get the same answer, byte for
//!   byte.
//! - A change that a call has begun is finished even if the client disconnects.
//!
//! On failure: an unavailable store is answered with 503 and `Retry-After`, any other fault with
//! 500 and the request id. The log has the same id beside the cause. An unavailable queue fails no
//! call.

mod account;
mod audit_log;
mod authentication;
mod base_path;
mod body;
mod channels;
mod cursor;
mod deliveries;
mod error;
mod error_mapping;
mod export;
mod id;
mod idempotency;
mod jobs;
mod limits;
mod middleware;
mod openapi;
mod paging;
mod preferences;
mod query;
mod reference;
mod reply;
mod request_id;
mod schedules;
mod schemas;
mod unsubscribe;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;

use ipnet::IpNet;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use base_path::{BasePath, InvalidBasePath};
pub use error::ApiError;
pub use export::line;

use crate::accounts::{Accounts, Authenticator, Throttle};
use crate::notifications::Notifications;
use crate::runtime::{Clock, Random, Tasks};
use crate::schedules::Schedules;

/// The maximum size of the texts on a page of a list, in bytes. A page ends early to keep it.
const PAGE_BYTES: usize = 8 << 20;

/// The dependencies of the API.
pub struct ApiParts {
    /// Commands and queries on schedules and jobs.
    pub schedules: Schedules,
    /// Commands and queries on notification channels, preferences and deliveries.
    pub notifications: Notifications,
    /// Commands and queries on accounts.
    pub accounts: Accounts,
    /// Checks API keys and counts calls.
    pub authenticator: Authenticator,
    /// Limits the actions that have lower rate limits than other calls.
    pub throttle: Arc<Throttle>,
    /// The clock for durations and time limits.
    pub clock: Clock,
    /// The source of random bits for request ids.
    pub random: Random,
    /// Runs tasks that outlive a request: drains of bodies, and calls with an idempotency key.
    pub tasks: Tasks,
    /// The path prefix of all routes.
    pub base_path: BasePath,
    /// The networks of proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Routes beside the API, which get the same layer around them.
    pub pages: Router,
}

/// The state that the handlers share.
struct Api {
    schedules: Schedules,
    notifications: Notifications,
    accounts: Accounts,
    authenticator: Authenticator,
    throttle: Arc<Throttle>,
    clock: Clock,
    random: Random,
    tasks: Tasks,
    base_path: BasePath,
    trusted_proxies: Vec<IpNet>,
    bulk_path: String,
    preview_path: String,
    document: Bytes,
}

type SharedApi = Arc<Api>;

/// Returns the router of the public listener. Requests should carry `ConnectInfo<SocketAddr>`;
/// those without it share one client address.
pub fn router(parts: ApiParts) -> Router {
    let base = parts.base_path.as_str();
    let document = document(base).to_json().expect("a document is made of texts");
    let api = Arc::new(Api {
        bulk_path: format!("{base}/v1/schedules/bulk"),
        preview_path: format!("{base}/v1/schedules/preview"),
        document: document.into(),
        schedules: parts.schedules,
        notifications: parts.notifications,
        accounts: parts.accounts,
        authenticator: parts.authenticator,
        throttle: parts.throttle,
        clock: parts.clock,
        random: parts.random,
        tasks: parts.tasks,
        base_path: parts.base_path,
        trusted_proxies: parts.trusted_proxies,
    });
    let (served, _) = served().split_for_parts();
    let served = served.method_not_allowed_fallback(async || ApiError::method_not_allowed());
    let served = served
        .with_state(api.clone())
        .merge(parts.pages.layer(axum::middleware::from_fn(body::give_back)));
    let base = api.base_path.as_str();
    let router = if base.is_empty() { served } else { Router::new().nest(base, served) };
    router
        .fallback(async || ApiError::not_found("Not found"))
        .layer(axum::middleware::from_fn_with_state(api, middleware::serve))
}

/// Returns the OpenAPI document of all routes, mounted under `base_path`.
pub fn document(base_path: &str) -> utoipa::openapi::OpenApi {
    openapi::complete(served().into_openapi(), base_path)
}

/// Returns every route with its documentation.
fn served() -> OpenApiRouter<SharedApi> {
    OpenApiRouter::default()
        .merge(schedules::routes())
        .merge(jobs::routes())
        .merge(channels::routes())
        .merge(preferences::routes())
        .merge(deliveries::routes())
        .merge(unsubscribe::routes())
        .routes(routes!(account::get_account))
        .routes(routes!(audit_log::list_audit_log))
        .merge(reference::routes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::ENDPOINTS;

    #[test]
    fn every_endpoint_has_metrics_of_its_own() {
        let document = serde_json::to_value(document("")).expect("JSON");
        let paths = document["paths"].as_object().expect("paths").iter();
        let mut served: Vec<_> = paths
            .flat_map(|(path, methods)| {
                let methods = methods.as_object().expect("methods").keys();
                let methods = methods.filter(|name| *name != "parameters");
                methods.map(move |method| (method.to_uppercase(), path.clone()))
            })
            .collect();
        served.sort_by(|one, other| (&one.1, &one.0).cmp(&(&other.1, &other.0)));
        let counted = ENDPOINTS.iter().map(|(method, path)| ((*method).into(), (*path).into()));
        assert_eq!(served, counted.collect::<Vec<(String, String)>>());
    }
}
