//! The pages of schedules: the list, the form, one schedule, and the changes of it.
//!
//! Place in the flow: the form is turned into the request of the API (`input`), and the same
//! commands check it and carry it out. Filters, order and position of the list are in its address.
//!
//! On failure: a form that was refused is shown again with its input and with messages beside its
//! fields. A change that cannot be undone has a confirmation page.

mod actions;
mod alerts;
mod bulk;
mod chart;
mod controls;
mod cron_help;
mod flash;
mod form;
mod import;
mod input;
mod list;
mod page;
mod pause;
mod sections;
mod test_panel;
mod version_changes;
mod version_use;
mod versions;
mod view;
mod worst_case;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

pub(super) use input::refusal;

use super::{Dashboard, DashboardParts};
use crate::domain::ScheduleId;

pub(super) fn routes() -> Router<Dashboard> {
    let import = get(import::show).post(import::submit);
    Router::new()
        .route("/dashboard/schedules", get(list::show))
        .route("/dashboard/schedules/bulk", get(bulk::show).post(bulk::submit))
        .route("/dashboard/schedules/cron", get(cron_help::show))
        .route(
            "/dashboard/schedules/import",
            import.layer(DefaultBodyLimit::max(import::MAX_BYTES)),
        )
        .route("/dashboard/schedules/worst-case", get(worst_case::show))
        .route("/dashboard/schedules/new", get(form::new).post(form::create))
        .route("/dashboard/schedules/{id}", get(page::show))
        .route("/dashboard/schedules/{id}/edit", get(form::edit).post(form::update))
        .route("/dashboard/schedules/{id}/alerts", get(alerts::show).post(alerts::submit))
        .route("/dashboard/schedules/{id}/run", post(actions::run))
        .route("/dashboard/schedules/{id}/toggle", post(actions::toggle))
        .route("/dashboard/schedules/{id}/pause", get(pause::ask).post(pause::submit))
        .route("/dashboard/schedules/{id}/versions", get(versions::show))
        .route(
            "/dashboard/schedules/{id}/versions/{version}/use",
            get(version_use::ask).post(version_use::submit),
        )
        .route("/dashboard/schedules/{id}/delete", get(actions::ask).post(actions::delete))
}

/// Returns the address of the list of failing schedules.
pub(super) fn failing_address(dashboard: &DashboardParts) -> String {
    dashboard.address("/schedules", [(view::OUTCOME, view::FAILING)])
}

/// Returns the path of a schedule's page.
fn path_of(dashboard: &DashboardParts, id: ScheduleId) -> String {
    dashboard.path(&format!("/schedules/{id}"))
}
