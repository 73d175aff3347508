//! The list of channels.

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use maud::{Markup, html};

use super::kinds;
use crate::dashboard::address::api_address;
use crate::dashboard::table;
use crate::dashboard::table::Column::{Text, WideText};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, DashboardParts, PageError, shell, time, widgets};
use crate::domain::channel::Channel;
use crate::domain::user::Role;
use crate::notifications::ChannelFilter;

pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let api = api_address(&dashboard, &headers);
    let filter = ChannelFilter::default();
    let channels = dashboard.notifications.channels(visitor.account(), filter).await?;
    let step = html! {
        @if visitor.may(Role::Member) {
            a.button href=(dashboard.path("/channels/new")) { "New channel" }
        }
    };
    let content = html! {
        div.head {
            h1 { "Channels" }
            @if !channels.is_empty() { div.actions { (step) } }
        }
        p.soft {
            "A channel is a destination for alerts. Each schedule defines which outcomes it "
            "reports, and to which channels."
        }
        @if channels.is_empty() {
            (widgets::empty("No channel yet. Add one to be notified when a job fails.", &step))
        } @else {
            (table(&dashboard, &visitor, &channels))
        }
        (widgets::curl("List them with curl", &format!(
            "curl -s '{api}/notification-channels' -H 'x-api-key: YOUR_KEY'"
        )))
    };
    Ok(shell::page(&dashboard, &visitor, ("Channels", "Channels"), &content))
}

fn table(dashboard: &DashboardParts, visitor: &Visitor, channels: &[Channel]) -> Markup {
    html! {
        (table::render(
            "Channels, newest first",
            &[Text("Label"), Text("Type"), Text("State"), WideText("Created"), Text("Changed")],
            &html! {
                @for channel in channels {
                    tr {
                        th scope="row" {
                            a href=(dashboard.path(&format!("/channels/{}", channel.id))) {
                                (channel.label)
                            }
                        }
                        td { (kinds::name(channel.kind)) }
                        td { (state(channel)) }
                        td.wide { (time::instant(channel.created_at, visitor.zone)) }
                        td { (time::instant(channel.updated_at, visitor.zone)) }
                    }
                }
            },
        ))
    }
}

/// Renders the verification state of a channel.
pub(super) fn state(channel: &Channel) -> Markup {
    html! {
        @if channel.verified {
            span.state.success { "Verified" }
        } @else {
            span.state.pending { "Not verified" }
        }
    }
}
