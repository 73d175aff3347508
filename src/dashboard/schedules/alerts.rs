//! The form of a schedule's alerts: the outcomes that raise them and the channels they are sent to.

use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::{controls, input, path_of};
use crate::dashboard::channels::kinds;
use crate::dashboard::form::{FormFields, FormMessages, request};
use crate::dashboard::shell::{self, redirect};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::widgets::{self, FormField, general_message};
use crate::dashboard::{Dashboard, DashboardParts, PageError, id_of};
use crate::domain::ScheduleId;
use crate::domain::channel::Channel;
use crate::domain::user::Role;
use crate::notifications::{ChannelFilter, NotificationError, Preference, PreferenceUpdate};

const NOTIFY_ON: [(&str, &str); 4] = [
    ("none", "Nothing"),
    ("failure", "Failures"),
    ("success", "Successes"),
    ("both", "Failures and successes"),
];

pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    visitor.needs(Role::Member)?;
    let preference = dashboard.notifications.preference(visitor.account(), id_of(&id)?).await?;
    let fields = fields_of(&preference);
    page(&dashboard, &visitor, preference.schedule, &fields, &FormMessages::default()).await
}

pub(super) async fn submit(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
    fields: FormFields,
) -> Result<Response, PageError> {
    let (account, call, id) = (visitor.account(), visitor.call()?, id_of(&id)?);
    let request: PreferenceUpdate = request(&json_of(&fields))?;
    let messages = match dashboard.notifications.set_preference(account, call, id, request).await {
        Ok(_) => return Ok(redirect(&path_of(&dashboard, id))),
        Err(NotificationError::Invalid(errors)) => FormMessages::of_fields(errors),
        Err(error @ NotificationError::LimitExceeded(_)) => {
            FormMessages::general(&error.to_string())
        }
        Err(error) => return Err(error.into()),
    };
    Ok(shell::refused(page(&dashboard, &visitor, id, &fields, &messages).await?))
}

/// Returns the form of a preference.
fn fields_of(preference: &Preference) -> FormFields {
    let policy = &preference.policy;
    let repeat = policy.repeat_every_minutes.map(|minutes| minutes.to_string());
    let mut pairs = vec![
        ("notifyOn", policy.notify_on.to_string()),
        ("failureThreshold", policy.failure_threshold.to_string()),
        ("repeatEveryMinutes", repeat.unwrap_or_default()),
    ];
    if policy.notify_on_recovery {
        pairs.push(("notifyOnRecovery", "true".to_owned()));
    }
    pairs.extend(preference.channels.iter().map(|channel| ("channelIds", channel.id.to_string())));
    FormFields::of(pairs)
}

/// Returns the request of a form, with the names of the API.
fn json_of(fields: &FormFields) -> Value {
    json!({
        "notifyOn": fields.text("notifyOn"),
        "channelIds": fields.all("channelIds").collect::<Vec<_>>(),
        "failureThreshold": input::number(fields.text("failureThreshold")),
        "notifyOnRecovery": fields.has("notifyOnRecovery"),
        "repeatEveryMinutes": input::number(fields.text("repeatEveryMinutes")),
    })
}

async fn page(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    id: ScheduleId,
    fields: &FormFields,
    messages: &FormMessages,
) -> Result<Response, PageError> {
    let schedule = dashboard.schedules.get(visitor.account(), id).await?;
    let filter = ChannelFilter { kind: None, verified: Some(true) };
    let channels = dashboard.notifications.channels(visitor.account(), filter).await?;
    let path = path_of(dashboard, id);
    let content = html! {
        h1 { "Alerts of " (schedule.name) }
        (general_message(messages))
        @if channels.is_empty() {
            (widgets::empty("Alerts are sent to channels. No channel is verified yet.", &html! {
                a.button href=(dashboard.path("/channels")) { "Go to the channels" }
            }))
        } @else {
            form method="post" action={ (path) "/alerts" } {
                (form(fields, messages, &channels))
                div.actions {
                    button type="submit" { "Save" }
                    a.button.second href=(path) { "Cancel" }
                }
            }
        }
    };
    Ok(shell::page(dashboard, visitor, ("Schedules", "Alerts"), &content))
}

fn form(fields: &FormFields, messages: &FormMessages, channels: &[Channel]) -> Markup {
    html! {
        (FormField::new("notifyOn", "Notify on", fields.text("notifyOn"))
            .select(&NOTIFY_ON, messages))
        (targets(fields, messages, channels))
        (FormField::new("failureThreshold", "Failures in a row before the first alert",
            fields.text("failureThreshold"))
            .hint("1 notifies on each failure.").input("number", messages))
        (FormField::new("repeatEveryMinutes", "Minutes between alerts while it keeps failing",
            fields.text("repeatEveryMinutes"))
            .hint("If empty, each failure raises an alert.").input("number", messages))
        (controls::check("notifyOnRecovery", "Notify when it succeeds again",
            fields.has("notifyOnRecovery")))
    }
}

fn targets(fields: &FormFields, messages: &FormMessages, channels: &[Channel]) -> Markup {
    let message = messages.of("channelIds");
    let is_chosen = |channel: &Channel| {
        let id = channel.id.to_string();
        fields.all("channelIds").any(|chosen| chosen == id)
    };
    html! {
        fieldset.wrong[message.is_some()] aria-describedby=[message.map(|_| "channels-message")] {
            legend { "Channels" }
            @for channel in channels {
                div.field.check {
                    input id=(channel.id) name="channelIds" type="checkbox" value=(channel.id)
                        checked[is_chosen(channel)];
                    label for=(channel.id) { (channel.label) " (" (kinds::name(channel.kind)) ")" }
                }
            }
            @if let Some(message) = message { p.message #channels-message { (message) } }
        }
    }
}
