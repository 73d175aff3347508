//! The link that `punctual dev` prints. It signs in the user of the trial, once.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};

use super::{entered, messages, refused, shown};
use crate::accounts::UserError;
use crate::dashboard::visitor::VisitorAddress;
use crate::dashboard::widgets::general_message;
use crate::dashboard::{Dashboard, DashboardParts};

/// Shows one button, because a browser that prefetches the link must not use it up.
pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    Path(token): Path<String>,
) -> Response {
    let action = dashboard.path(&format!("/first/{token}"));
    shown(
        &dashboard,
        "Welcome",
        &maud::html! {
            h1 { "Welcome to Punctual" }
            form method="post" action=(action) { button type="submit" { "Open the dashboard" } }
        },
    )
}

pub(super) async fn enter(
    State(dashboard): State<Dashboard>,
    VisitorAddress(address): VisitorAddress,
    Path(token): Path<String>,
) -> Response {
    match dashboard.users.enter(&token, address).await {
        Ok(signed_in) => entered(&dashboard, &signed_in, ""),
        Err(error) => not_entered(&dashboard, error),
    }
}

fn not_entered(dashboard: &DashboardParts, error: UserError) -> Response {
    match messages(error) {
        Ok(messages) => refused(
            dashboard,
            "Sign in",
            &maud::html! {
                h1 { "This link does not work" }
                (general_message(&messages))
                p { "Start " code { "punctual dev" } " again for a new link." }
            },
        ),
        Err(error) => error.into_response(),
    }
}
