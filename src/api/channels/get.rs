//! `GET /v1/notification-channels/{id}`

use axum::extract::State;

use super::record::ChannelRecord;
use crate::api::authentication::ReadAccess;
use crate::api::id::ChannelInPath;
use crate::api::openapi::{NoSuchChannel, Usual};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi};

/// Get a notification channel
#[utoipa::path(
    get,
    path = "/v1/notification-channels/{id}",
    tag = "Notifications",
    params(("id" = String, Path, description = "The channel's id")),
    responses(
        (status = 200, description = "The channel", body = DataEnvelope<ChannelRecord>),
        NoSuchChannel,
        Usual,
    ),
)]
pub(super) async fn get_channel(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
    ChannelInPath(id): ChannelInPath,
) -> Result<DataEnvelope<ChannelRecord>, ApiError> {
    Ok(DataEnvelope::of(api.notifications.channel(account, id).await?.into()))
}
