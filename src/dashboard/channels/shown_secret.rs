//! The page that shows a generated signing secret once.

use axum::response::Response;
use maud::html;

use crate::channels::GeneratedSecret;
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{DashboardParts, shell, widgets};
use crate::domain::ChannelId;

/// Renders a secret that was generated for a channel. No other page shows it.
pub(super) fn shown_once(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    channel: ChannelId,
    secret: &GeneratedSecret,
) -> Response {
    let content = html! {
        h1 { "The signing secret" }
        p.note { "Copy it now. It is shown only once." }
        p { "With this secret the receiver verifies that alerts come from this service." }
        (widgets::copyable(secret.reveal()))
        p { a.button href=(dashboard.path(&format!("/channels/{channel}"))) { "Continue" } }
    };
    shell::page(dashboard, visitor, ("Channels", "The signing secret"), &content)
}
