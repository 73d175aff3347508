//! `POST /v1/notification-channels/{id}/rotate-secret`

use axum::extract::State;

use super::record::SecretRecord;
use crate::api::authentication::WriteAccess;
use crate::api::body::JsonBody;
use crate::api::id::ChannelInPath;
use crate::api::openapi::{ChannelUnchanged, Usual};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi};
use crate::domain::request_body::object;
use crate::notifications::SecretRotation;

/// Replace the signing secret of a webhook channel
///
/// Both secrets sign until the overlap ends, so that the receiver has time to switch. The channel
/// stays verified. For other types of channels, which have no secret, the answer is a conflict.
#[utoipa::path(
    post,
    path = "/v1/notification-channels/{id}/rotate-secret",
    tag = "Notifications",
    params(("id" = String, Path, description = "The channel's id")),
    request_body(content = Option<SecretRotation>),
    responses(
        (status = 200, description = "The channel, and the new secret if it was generated", body = DataEnvelope<SecretRecord>),
        ChannelUnchanged,
        Usual,
    ),
)]
pub(super) async fn rotate_secret(
    State(api): State<SharedApi>,
    WriteAccess(account, call): WriteAccess,
    ChannelInPath(id): ChannelInPath,
    JsonBody(body): JsonBody,
) -> Result<DataEnvelope<SecretRecord>, ApiError> {
    let request = if body.is_empty() { SecretRotation::default() } else { object(&body)? };
    let rotated = api.notifications.rotate_secret(account, call, id, request).await?;
    Ok(DataEnvelope::of(rotated.into()))
}
