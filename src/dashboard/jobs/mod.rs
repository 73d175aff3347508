//! The pages of jobs: the list, and the page of one job with its attempts, its request and its
//! response. The page of a job that has not finished is kept up to date by a stream of events.

pub(super) mod advice;
pub(super) mod attempts;
mod events;
pub(super) mod exchange;
mod figures;
mod list;
mod names;
mod page;
mod pretty;
mod schedule_filter;

use axum::Router;
use axum::routing::{get, post};

pub(super) use names::{ScheduleNames, names};

use super::Dashboard;

pub(super) fn routes() -> Router<Dashboard> {
    Router::new()
        .route("/dashboard/jobs", get(list::show))
        .route("/dashboard/jobs/{id}", get(page::show))
        .route("/dashboard/jobs/{id}/events", get(events::show))
        .route("/dashboard/jobs/{id}/retry", post(page::retry))
        .route("/dashboard/jobs/{id}/cancel", post(page::cancel))
}
