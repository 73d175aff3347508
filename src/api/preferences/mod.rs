//! The endpoints of notification preferences.

mod get;
mod record;
mod set;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::SharedApi;

/// Returns the routes of notification preferences.
pub(super) fn routes() -> OpenApiRouter<SharedApi> {
    OpenApiRouter::default().routes(routes!(get::get_preference, set::set_preference))
}
