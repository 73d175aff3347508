//! The endpoints of jobs.

mod cancel;
mod get;
mod list;
mod record;
mod retry;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::SharedApi;

/// Their routes.
pub(super) fn routes() -> OpenApiRouter<SharedApi> {
    OpenApiRouter::default()
        .routes(routes!(list::list_jobs))
        .routes(routes!(get::get_job))
        .routes(routes!(retry::retry_job))
        .routes(routes!(cancel::cancel_job))
}
