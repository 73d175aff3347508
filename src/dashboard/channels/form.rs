//! The forms of a new channel and of a changed one.

use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::kinds;
use super::shown_secret::shown_once;
use crate::dashboard::form::{FormFields, FormMessages, request};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::widgets::{FormField, general_message};
use crate::dashboard::{Dashboard, DashboardParts, PageError, id_of, shell};
use crate::domain::channel::Channel;
use crate::domain::plan::ChannelType;
use crate::domain::user::Role;
use crate::notifications::{ChannelCreation, ChannelUpdate, ChannelWithSecret, NotificationError};

/// The type of the form of a new channel: `type` in the address and in the form.
const TYPE: &str = "type";

pub(super) async fn show_new(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    fields: FormFields,
) -> Result<Response, PageError> {
    visitor.needs(Role::Member)?;
    let kinds = allowed(&dashboard, &visitor).await?;
    let asked: Option<ChannelType> = fields.text(TYPE).parse().ok();
    let kind = asked.filter(|kind| kinds.contains(kind)).or(kinds.first().copied());
    let kind = kind.ok_or_else(|| {
        PageError::Refused("The plan of the account allows no channels.".to_owned())
    })?;
    let content =
        new_form(&dashboard, (kind, &kinds), &FormFields::default(), &FormMessages::default());
    Ok(shell::page(&dashboard, &visitor, ("Channels", "New channel"), &content))
}

pub(super) async fn create(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    fields: FormFields,
) -> Result<Response, PageError> {
    let call = visitor.call()?;
    let kind: Option<ChannelType> = fields.text(TYPE).parse().ok();
    let kind = kind.ok_or_else(|| PageError::Refused("Choose a type of channel.".to_owned()))?;
    let label = fields.text("label").trim();
    let body = json!({
        "type": kind.as_str(), "label": label, "config": kinds::config(kind, &fields),
    });
    let request: ChannelCreation = request(&body)?;
    match dashboard.notifications.create_channel(visitor.account(), call, request).await {
        Ok(created) => Ok(done(&dashboard, &visitor, created)),
        Err(error) => {
            let messages = messages(error)?;
            let kinds = allowed(&dashboard, &visitor).await?;
            let content = new_form(&dashboard, (kind, &kinds), &fields, &messages);
            let page = shell::page(&dashboard, &visitor, ("Channels", "New channel"), &content);
            Ok(shell::refused(page))
        }
    }
}

pub(super) async fn show_edit(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    visitor.needs(Role::Member)?;
    let id = id_of(&id)?;
    let channel = dashboard.notifications.channel(visitor.account(), id).await?;
    let fields = FormFields(vec![("label".to_owned(), channel.label.clone())]);
    let content = edit_form(&dashboard, &channel, &fields, &FormMessages::default());
    Ok(shell::page(&dashboard, &visitor, ("Channels", "Edit channel"), &content))
}

pub(super) async fn update(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
    fields: FormFields,
) -> Result<Response, PageError> {
    let (account, call) = (visitor.account(), visitor.call()?);
    let id = id_of(&id)?;
    let channel = dashboard.notifications.channel(account, id).await?;
    let mut body = json!({ "label": fields.text("label").trim() });
    let config = kinds::config(channel.kind, &fields);
    if !config.is_empty() {
        body["config"] = Value::Object(config);
    }
    let request: ChannelUpdate = request(&body)?;
    match dashboard.notifications.update_channel(account, call, id, request).await {
        Ok(updated) => Ok(done(&dashboard, &visitor, updated)),
        Err(error) => {
            let content = edit_form(&dashboard, &channel, &fields, &messages(error)?);
            let page = shell::page(&dashboard, &visitor, ("Channels", "Edit channel"), &content);
            Ok(shell::refused(page))
        }
    }
}

/// Shows the secret that was generated, else the channel.
fn done(dashboard: &DashboardParts, visitor: &Visitor, done: ChannelWithSecret) -> Response {
    let ChannelWithSecret { channel, secret } = done;
    match secret {
        Some(secret) => shown_once(dashboard, visitor, channel.id, &secret),
        None => shell::redirect(&dashboard.path(&format!("/channels/{}", channel.id))),
    }
}

/// Returns the messages of an error that the visitor can correct.
fn messages(error: NotificationError) -> Result<FormMessages, PageError> {
    match error {
        NotificationError::Invalid(errors) => Ok(FormMessages::of_fields(errors)),
        error @ (NotificationError::LimitExceeded(_)
        | NotificationError::Suspended
        | NotificationError::Conflict(_)
        | NotificationError::Contended) => Ok(FormMessages::general(&error.to_string())),
        error => Err(error.into()),
    }
}

/// Returns the types that the plan of the account allows.
async fn allowed(dashboard: &Dashboard, visitor: &Visitor) -> Result<Vec<ChannelType>, PageError> {
    let overview = dashboard.accounts.overview(visitor.account()).await?;
    let plan = overview.ok_or(PageError::NotFound)?.plan;
    let kinds = ChannelType::ALL.iter().copied();
    Ok(kinds.filter(|kind| plan.check_channel_type(*kind).is_ok()).collect())
}

fn new_form(
    dashboard: &DashboardParts,
    (kind, kinds): (ChannelType, &[ChannelType]),
    fields: &FormFields,
    messages: &FormMessages,
) -> Markup {
    html! {
        h1 { "New channel" }
        nav.choice aria-label="Type of the channel" {
            @for one in kinds {
                @let path = dashboard.path(&format!("/channels/new?type={one}"));
                a href=(path) aria-current=[(*one == kind).then_some("true")] {
                    (kinds::name(*one))
                }
            }
        }
        (general_message(messages))
        form method="post" action=(dashboard.path("/channels")) {
            input type="hidden" name=(TYPE) value=(kind);
            (label_field(fields, messages))
            (config_inputs(kind, true, fields, messages))
            p.hint { "Next, a test notification shows whether the channel works." }
            button type="submit" { "Create channel" }
        }
    }
}

fn edit_form(
    dashboard: &DashboardParts,
    channel: &Channel,
    fields: &FormFields,
    messages: &FormMessages,
) -> Markup {
    let path = dashboard.path(&format!("/channels/{}", channel.id));
    html! {
        h1 { "Edit " (channel.label) }
        (general_message(messages))
        form method="post" action={ (path) "/edit" } {
            (label_field(fields, messages))
            fieldset {
                legend { "Configuration" }
                p.hint {
                    "It is secret, so it is not shown. Leave these fields empty to keep it. After "
                    "a change, the channel must be verified again."
                }
                (config_inputs(channel.kind, false, fields, messages))
            }
            div.actions {
                button type="submit" { "Save channel" }
                a.button.second href=(path) { "Cancel" }
            }
        }
    }
}

fn label_field(fields: &FormFields, messages: &FormMessages) -> Markup {
    let label = FormField::new("label", "Label", fields.text("label"));
    label.hint("A name for people.").required().input("text", messages)
}

/// Renders the inputs of a configuration. For an existing channel, all of them may stay empty.
fn config_inputs(
    kind: ChannelType,
    is_new: bool,
    fields: &FormFields,
    messages: &FormMessages,
) -> Markup {
    html! {
        @for field in kinds::config_fields(kind) {
            @let value = fields.text(field.name);
            @let plain = FormField::new(field.name, field.label, value)
                .hint(field.hint).secret(field.is_secret);
            @if is_new && field.is_required {
                (plain.required().input(field.input, messages))
            } @else {
                (plain.input(field.input, messages))
            }
        }
    }
}
