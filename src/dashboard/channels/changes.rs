//! Changes of a channel: verifying it, replacing its secret, deleting it, and sending a failed
//! alert again.

use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;
use maud::html;

use super::page::{ChangeResult, OVERLAPS, render};
use super::shown_secret::shown_once;
use super::uses;
use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::question::{Question, is_sure};
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{Dashboard, PageError, id_of, question, shell, widgets};
use crate::domain::alert::delivery::DeliveryError;
use crate::domain::request_body::Field;
use crate::domain::user::Role;
use crate::domain::{ChannelId, DeliveryId};
use crate::notifications::{NotificationError, SecretRotation};
use crate::store::TESTS_PER_HOUR;

/// Sends a test notification, and shows the provider's answer.
pub(super) async fn verify(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let (id, call) = (id_of(&id)?, visitor.call()?);
    let shown = (id, &headers);
    let now = dashboard.clock.now();
    let admission = dashboard.throttle.channel_test(visitor.account(), now).await;
    if !admission.allowed {
        let why = "Your account has sent too many test notifications. Wait a few minutes";
        let result = failed(why);
        return Ok(shell::refused(render(&dashboard, &visitor, shown, None, &result).await?));
    }
    let verified = dashboard.notifications.verify_channel(visitor.account(), call, id).await;
    let result = match verified {
        Ok(_) => {
            let success = "The test notification has arrived. The channel is verified.";
            let result = ChangeResult { success: Some(success), ..ChangeResult::default() };
            return render(&dashboard, &visitor, shown, None, &result).await;
        }
        Err(NotificationError::VerificationFailed { code, message, status }) => {
            failed(&refusal(code, &message, status))
        }
        Err(NotificationError::TooManyTests { reset_at, .. }) => failed(&format!(
            "A channel gets at most {TESTS_PER_HOUR} test notifications per hour. The next one is \
             possible after {reset_at}"
        )),
        Err(NotificationError::Conflict(why)) => failed(why),
        Err(error) => return Err(error.into()),
    };
    Ok(shell::refused(render(&dashboard, &visitor, shown, None, &result).await?))
}

fn failed(why: &str) -> ChangeResult {
    ChangeResult { success: None, failure: FormMessages::general(why) }
}

fn refusal(code: DeliveryError, message: &str, status: Option<u16>) -> String {
    let status = status.map(|status| format!(", status {status}")).unwrap_or_default();
    let message = message.trim_end_matches('.');
    format!("The test notification was not delivered. {message} ({code}{status})")
}

/// Replaces the secret with which a webhook channel signs. The new one is shown once.
pub(super) async fn rotate_secret(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
    fields: FormFields,
) -> Result<Response, PageError> {
    let (id, call) = (id_of(&id)?, visitor.call()?);
    let seconds: i64 = fields.seconds("overlap", &OVERLAPS)?;
    if !is_sure(&fields) {
        let channel = dashboard.notifications.channel(visitor.account(), id).await?;
        let page = format!("/channels/{id}");
        let old = match seconds {
            0 => {
                "The old one stops signing at once, so alerts are refused until the receiver has \
                  the new one."
            }
            _ => "Both sign until the overlap ends, so that the receiver has time to switch.",
        };
        let question = Question {
            entry: "Channels",
            title: &format!("Replace the signing secret of {}?", channel.label),
            text: &format!("A new secret is made and shown once. {old} This cannot be undone."),
            page: &format!("{page}/secret"),
            fields: &[("overlap", fields.text("overlap"))],
            button: "Replace secret",
            keep: ("Keep it", &page),
        };
        return Ok(question::ask(&dashboard, &visitor, &question));
    }
    let request = SecretRotation { overlap_seconds: Field::Value(seconds), ..Default::default() };
    let account = visitor.account();
    let rotated = dashboard.notifications.rotate_secret(account, call, id, request).await?;
    match rotated.secret {
        Some(secret) => Ok(shown_once(&dashboard, &visitor, id, &secret)),
        None => Ok(shell::redirect(&dashboard.path(&format!("/channels/{id}")))),
    }
}

/// Asks for confirmation before a channel is deleted.
pub(super) async fn ask(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    visitor.needs(Role::Member)?;
    let id = id_of(&id)?;
    let channel = dashboard.notifications.channel(visitor.account(), id).await?;
    let used = uses::read(&dashboard, &visitor, id).await?;
    let path = dashboard.path(&format!("/channels/{id}"));
    let content = html! {
        h1 { "Delete the channel " (channel.label) "?" }
        p {
            "It is detached from all schedules, and its pending alerts fail. This cannot be undone."
        }
        @if used.total > 0 {
            p { "Schedules whose alerts no longer reach it: " (used.total) }
            (uses::render(&dashboard, &used))
        }
        div.actions {
            (widgets::action(&format!("{path}/delete"), "Delete channel", "danger"))
            a.button.second href=(path) { "Keep it" }
        }
    };
    Ok(shell::page(&dashboard, &visitor, ("Channels", "Delete a channel"), &content))
}

pub(super) async fn delete(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    let (id, call) = (id_of(&id)?, visitor.call()?);
    dashboard.notifications.delete_channel(visitor.account(), call, id).await?;
    Ok(shell::redirect(&dashboard.path("/channels")))
}

/// Sends a failed alert again, and shows the channel.
pub(super) async fn redeliver(
    State(dashboard): State<Dashboard>,
    visitor: Visitor,
    Path((id, delivery)): Path<(String, String)>,
) -> Result<Response, PageError> {
    let (id, call) = (id_of::<ChannelId>(&id)?, visitor.call()?);
    let delivery: DeliveryId = id_of(&delivery)?;
    dashboard.notifications.redeliver(visitor.account(), call, delivery).await?;
    Ok(shell::redirect(&dashboard.path(&format!("/channels/{id}"))))
}
