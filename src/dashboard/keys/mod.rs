//! API keys: the list, and creating, rotating and revoking keys. A new key is shown once.

mod changes;
mod list;

use axum::Router;
use axum::routing::{get, post};

use super::Dashboard;

pub(super) fn routes() -> Router<Dashboard> {
    Router::new()
        .route("/dashboard/keys", get(list::show).post(changes::create))
        .route("/dashboard/keys/{id}/rotate", post(changes::rotate))
        .route("/dashboard/keys/{id}/revoke", get(changes::ask).post(changes::revoke))
}
