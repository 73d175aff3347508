//! The pages of notification channels: the list, one channel with its deliveries, and the forms.
//! The forms build the JSON that the API reads, so their messages are those of the API.

mod changes;
mod deliveries;
mod form;
pub(super) mod kinds;
mod list;
mod page;
mod shown_secret;
mod uses;

use axum::Router;
use axum::routing::{get, post};

use super::Dashboard;

pub(super) fn routes() -> Router<Dashboard> {
    Router::new()
        .route("/dashboard/channels", get(list::show).post(form::create))
        .route("/dashboard/channels/new", get(form::show_new))
        .route("/dashboard/channels/{id}", get(page::show))
        .route("/dashboard/channels/{id}/edit", get(form::show_edit).post(form::update))
        .route("/dashboard/channels/{id}/verify", post(changes::verify))
        .route("/dashboard/channels/{id}/secret", post(changes::rotate_secret))
        .route("/dashboard/channels/{id}/delete", get(changes::ask).post(changes::delete))
        .route("/dashboard/channels/{id}/deliveries/{delivery}/redeliver", post(changes::redeliver))
}
