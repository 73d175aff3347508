//! The page of one channel: its state, the changes that it offers, and its last deliveries.

use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use maud::{Markup, html};

use super::{deliveries, kinds, list, uses};
use crate::dashboard::address::api_address;
use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::widgets::{self, general_message};
use crate::dashboard::{Dashboard, DashboardParts, PageError, id_of, shell, time};
use crate::domain::channel::Channel;
use crate::domain::plan::ChannelType;
use crate::domain::user::Role;
use crate::domain::{ChannelId, DeliveryId};
use crate::store::DeliveryQuery;

const PAGE_DELIVERIES: u32 = 20;
/// The times for which a replaced secret keeps signing, in seconds.
pub(super) const OVERLAPS: [(&str, &str); 4] = [
    ("86400", "Signs for 24 hours"),
    ("0", "Stops now"),
    ("3600", "Signs for 1 hour"),
    ("604800", "Signs for 7 days"),
];

/// The result of a change, which the page shows above the channel.
#[derive(Default)]
pub(super) struct ChangeResult {
    pub(super) success: Option<&'static str>,
    pub(super) failure: FormMessages,
}

pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
    headers: HeaderMap,
    fields: FormFields,
) -> Result<Response, PageError> {
    let after = fields.text("after").parse().ok();
    let shown = (id_of(&id)?, &headers);
    render(&dashboard, &visitor, shown, after, &ChangeResult::default()).await
}

/// Renders a channel with its deliveries, from the one after `after` on. The headers are those of
/// the request for the page.
pub(super) async fn render(
    dashboard: &Dashboard,
    visitor: &Visitor,
    (id, headers): (ChannelId, &HeaderMap),
    after: Option<DeliveryId>,
    result: &ChangeResult,
) -> Result<Response, PageError> {
    let account = visitor.account();
    let channel = dashboard.notifications.channel(account, id).await?;
    let limit = PAGE_DELIVERIES;
    let query = DeliveryQuery { channel: Some(id), after, limit, ..DeliveryQuery::default() };
    let page = dashboard.notifications.deliveries(account, &query).await?;
    let used = uses::read(dashboard, visitor, id).await?;
    let path = dashboard.path(&format!("/channels/{id}"));
    let last = page.deliveries.last().filter(|_| page.has_more);
    let older = last.map(|last| format!("{path}?after={}", last.id));
    let newer = after.is_some().then(|| path.clone());
    let api = api_address(dashboard, headers);
    let content = html! {
        (head(dashboard, visitor, &channel))
        @if let Some(success) = result.success { p.note role="status" { (success) } }
        (general_message(&result.failure))
        (facts(visitor, &channel))
        @if channel.kind == ChannelType::Webhook && visitor.may(Role::Member) {
            (secret_form(&path))
        }
        h2 { "Where used" }
        @if used.total == 0 {
            p.soft {
                "No schedule sends alerts to this channel. "
                @if channel.verified {
                    "Set up alerts on the page of a schedule: "
                    a href=(dashboard.path("/schedules")) { "choose a schedule" } "."
                } @else {
                    "Verify it first; then set up alerts on the page of a schedule."
                }
            }
        } @else {
            p { "Schedules that name this channel in their alerts: " (used.total) }
            (uses::render(dashboard, &used))
        }
        h2 { "Last deliveries" }
        @if page.deliveries.is_empty() {
            p.soft { "Nothing was sent in the last 30 days. Test notifications are not listed." }
        } @else {
            (deliveries::table(dashboard, visitor, &path, &page.deliveries))
        }
        (widgets::pager(newer, older))
        (widgets::curl("Send a test notification with curl", &format!(
            "curl -s -X POST '{api}/notification-channels/{id}/verify' -H 'x-api-key: YOUR_KEY'"
        )))
    };
    Ok(shell::page(dashboard, visitor, ("Channels", channel.label.as_str()), &content))
}

fn head(dashboard: &DashboardParts, visitor: &Visitor, channel: &Channel) -> Markup {
    let path = dashboard.path(&format!("/channels/{}", channel.id));
    let test = if channel.verified { "Send a test notification" } else { "Verify channel" };
    let class = if channel.verified { "second" } else { "" };
    html! {
        div.head {
            h1 { (channel.label) " " (list::state(channel)) }
            @if visitor.may(Role::Member) {
                div.actions {
                    (widgets::action(&format!("{path}/verify"), test, class))
                    a.button.second href={ (path) "/edit" } { "Edit" }
                    a.button.danger href={ (path) "/delete" } { "Delete" }
                }
            }
        }
        @if !channel.verified {
            p {
                "To verify it, a test notification is sent to the channel. Only verified channels "
                "can be attached to schedules."
            }
        }
    }
}

fn facts(visitor: &Visitor, channel: &Channel) -> Markup {
    html! {
        dl.facts {
            div { dt { "Type" } dd { (kinds::name(channel.kind)) } }
            div { dt { "Created" } dd { (time::instant(channel.created_at, visitor.zone)) } }
            div { dt { "Changed" } dd { (time::instant(channel.updated_at, visitor.zone)) } }
            div { dt { "Id" } dd { code { (channel.id) } } }
        }
    }
}

/// Renders the form that replaces the secret with which a webhook channel signs.
fn secret_form(path: &str) -> Markup {
    html! {
        details {
            summary { "Replace the signing secret" }
            form method="post" action={ (path) "/secret" } {
                p.hint {
                    "Both secrets sign until the overlap ends, so that the receiver has time to "
                    "switch."
                }
                div.filters {
                    label {
                        "The old secret"
                        select name="overlap" {
                            @for (value, text) in OVERLAPS { option value=(value) { (text) } }
                        }
                    }
                    button.second type="submit" { "Replace secret" }
                }
            }
        }
    }
}
