//! The deliveries of a channel with their tries.

use maud::{Markup, html};

use crate::dashboard::table;
use crate::dashboard::table::Column::Text;
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{DashboardParts, time, widgets};
use crate::domain::alert::AlertKind;
use crate::domain::alert::delivery::DeliveryStatus;
use crate::domain::user::Role;
use crate::store::{Delivery, DeliveryTry};

/// Renders deliveries. `channel` is the path of the channel's page.
pub(super) fn table(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    channel: &str,
    deliveries: &[Delivery],
) -> Markup {
    html! {
        (table::render_stacked(
            "Deliveries, newest first",
            &[Text("Event"), Text("Alert"), Text("State"), Text("Tries")],
            &html! {
                @for delivery in deliveries { (row(dashboard, visitor, channel, delivery)) }
            },
        ))
    }
}

fn row(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    channel: &str,
    delivery: &Delivery,
) -> Markup {
    let may_change = visitor.may(Role::Member);
    html! {
        tr {
            th scope="row" { (time::instant(delivery.at, visitor.zone)) }
            td { (alert(dashboard, delivery)) }
            td {
                (state(delivery.status))
                @if delivery.status == DeliveryStatus::Failed && may_change {
                    " "
                    (widgets::action(
                        &format!("{channel}/deliveries/{}/redeliver", delivery.id),
                        "Send again",
                        "quiet",
                    ))
                }
                @if let Some(next) = delivery.next_try_at {
                    span.sub {
                        "Next try " (time::relative(next, dashboard.clock.now(), visitor.zone))
                    }
                }
            }
            td { (tries(visitor, delivery)) }
        }
    }
}

/// Renders the kind of an alert, with links to its job and its schedule.
fn alert(dashboard: &DashboardParts, delivery: &Delivery) -> Markup {
    let text = match delivery.kind {
        AlertKind::JobFailed => "Job failed",
        AlertKind::JobSucceeded => "Job succeeded",
        AlertKind::ScheduleRecovered => "Schedule recovered",
        AlertKind::IncidentOpened => "Incident opened",
        AlertKind::IncidentClosed => "Incident closed",
        AlertKind::Digest => "Digest of several alerts",
        AlertKind::ChannelTest => "Test",
    };
    html! {
        (text)
        @if let Some(job) = delivery.job {
            " · " a href=(dashboard.path(&format!("/jobs/{job}"))) { "job" }
        }
        @if let Some(schedule) = delivery.schedule {
            " · " a href=(dashboard.path(&format!("/schedules/{schedule}"))) { "schedule" }
        }
    }
}

fn state(status: DeliveryStatus) -> Markup {
    let (class, text) = match status {
        DeliveryStatus::Pending => ("state pending", "Pending"),
        DeliveryStatus::Delivered => ("state success", "Delivered"),
        DeliveryStatus::Failed => ("state failed", "Failed"),
        DeliveryStatus::Merged => ("state off", "Part of another alert"),
    };
    html! { span class=(class) { (text) } }
}

/// Renders the tries with the provider's answers. A delivery can fail without any try.
fn tries(visitor: &Visitor, delivery: &Delivery) -> Markup {
    html! {
        @if delivery.tries.is_empty() {
            @match &delivery.error_message {
                Some(message) => { span.sub { (message) } }
                None => { "–" }
            }
        } @else {
            details open[delivery.status == DeliveryStatus::Failed] {
                summary { (count(delivery.tries.len())) }
                ol.tries { @for made in &delivery.tries { li { (one_try(visitor, made)) } } }
            }
        }
    }
}

fn count(tries: usize) -> String {
    if tries == 1 { "1 try".to_owned() } else { format!("{tries} tries") }
}

fn one_try(visitor: &Visitor, made: &DeliveryTry) -> Markup {
    html! {
        (time::instant(made.started_at, visitor.zone)) ": "
        @match made.error_code {
            Some(code) => { code { (code) } }
            None => { "accepted" }
        }
        @if let Some(status) = made.status_code { ", status " (status) }
        @if let Some(message) = &made.error_message { span.sub { (message) } }
        @if let Some(response) = &made.response { span.sub { "Response: " (response) } }
    }
}
