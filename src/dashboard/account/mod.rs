//! The pages of the account: plan and usage, members, signing secrets, the visitor's own times,
//! password and sessions, and the audit log. A form that was refused shows the page again with its
//! messages.

mod audit;
mod choose;
mod display;
mod display_changes;
mod member_changes;
mod members;
mod own;
mod own_changes;
mod page;
mod signing;
mod signing_changes;
mod usage;

use axum::Router;
use axum::routing::{get, post};

use super::Dashboard;

pub(super) fn routes() -> Router<Dashboard> {
    Router::new()
        .route("/dashboard/account", get(page::show))
        .route("/dashboard/account/audit", get(audit::show))
        .route("/dashboard/account/choose", post(choose::choose))
        .route("/dashboard/account/members/{user}/role", post(member_changes::set_role))
        .route("/dashboard/account/members/{user}/remove", post(member_changes::remove))
        .route("/dashboard/account/invitations", post(member_changes::invite))
        .route("/dashboard/account/invitations/{id}/take-back", post(member_changes::take_back))
        .route("/dashboard/account/signing/show", post(signing_changes::show))
        .route("/dashboard/account/signing/rotate", post(signing_changes::rotate))
        .route("/dashboard/account/display", post(display_changes::submit))
        .route("/dashboard/account/password", post(own_changes::change_password))
        .route("/dashboard/account/sign-out-everywhere", post(own_changes::sign_out_everywhere))
}
