//! `PUT` and `PATCH /v1/notification-channels/{id}`: two methods for the same partial update.

use axum::extract::State;

use super::record::SecretRecord;
use crate::api::authentication::WriteAccess;
use crate::api::body::JsonBody;
use crate::api::id::ChannelInPath;
use crate::api::openapi::{ChannelUnchanged, Usual};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi};
use crate::domain::request_body::object;
use crate::notifications::ChannelUpdate;

/// Change a notification channel
///
/// Only the given fields change. A configuration that differs from the current one resets
/// `verified` to `false`, and alerts that wait for the channel fail.
#[utoipa::path(
    put,
    path = "/v1/notification-channels/{id}",
    tag = "Notifications",
    params(("id" = String, Path, description = "The channel's id")),
    request_body = ChannelUpdate,
    responses(
        (status = 200, description = "The channel", body = DataEnvelope<SecretRecord>),
        ChannelUnchanged,
        Usual,
    ),
)]
pub(super) async fn put_channel(
    state: State<SharedApi>,
    writer: WriteAccess,
    id: ChannelInPath,
    body: JsonBody,
) -> Result<DataEnvelope<SecretRecord>, ApiError> {
    patch_channel(state, writer, id, body).await
}

/// Change a notification channel
///
/// The same as PUT: only the given fields change.
#[utoipa::path(
    patch,
    path = "/v1/notification-channels/{id}",
    tag = "Notifications",
    params(("id" = String, Path, description = "The channel's id")),
    request_body = ChannelUpdate,
    responses(
        (status = 200, description = "The channel", body = DataEnvelope<SecretRecord>),
        ChannelUnchanged,
        Usual,
    ),
)]
pub(super) async fn patch_channel(
    State(api): State<SharedApi>,
    WriteAccess(account, call): WriteAccess,
    ChannelInPath(id): ChannelInPath,
    JsonBody(body): JsonBody,
) -> Result<DataEnvelope<SecretRecord>, ApiError> {
    let request: ChannelUpdate = object(&body)?;
    let changed = api.notifications.update_channel(account, call, id, request).await?;
    Ok(DataEnvelope::of(changed.into()))
}
