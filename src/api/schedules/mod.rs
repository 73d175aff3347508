//! The endpoints of schedules.

mod create;
mod create_bulk;
mod get;
mod list;
mod preview;
mod record;
mod remove;
mod skips;
mod toggle;
mod trigger;
mod update;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::SharedApi;

/// Their routes.
pub(super) fn routes() -> OpenApiRouter<SharedApi> {
    OpenApiRouter::default()
        .routes(routes!(list::list_schedules, create::create_schedule))
        .routes(routes!(create_bulk::create_schedules))
        .routes(routes!(preview::preview_schedule))
        .routes(routes!(
            get::get_schedule,
            update::put_schedule,
            update::patch_schedule,
            remove::delete_schedule
        ))
        .routes(routes!(toggle::toggle_schedule))
        .routes(routes!(trigger::trigger_schedule))
        .routes(routes!(skips::list_skips))
}
