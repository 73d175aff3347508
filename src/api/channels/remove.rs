//! `DELETE /v1/notification-channels/{id}`

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::authentication::WriteAccess;
use crate::api::id::ChannelInPath;
use crate::api::openapi::{Forbidden, NoSuchChannel, Usual};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi};
use crate::domain::ChannelId;

/// The channel that was deleted.
#[derive(Serialize, ToSchema)]
pub(super) struct DeletedChannel {
    #[schema(value_type = String)]
    id: ChannelId,
}

/// Delete a notification channel
///
/// It is detached from all schedules, and alerts that wait for it fail.
#[utoipa::path(
    delete,
    path = "/v1/notification-channels/{id}",
    tag = "Notifications",
    params(("id" = String, Path, description = "The channel's id")),
    responses(
        (status = 200, description = "The deleted channel", body = DataEnvelope<DeletedChannel>),
        Forbidden,
        NoSuchChannel,
        Usual,
    ),
)]
pub(super) async fn delete_channel(
    State(api): State<SharedApi>,
    WriteAccess(account, call): WriteAccess,
    ChannelInPath(id): ChannelInPath,
) -> Result<DataEnvelope<DeletedChannel>, ApiError> {
    api.notifications.delete_channel(account, call, id).await?;
    Ok(DataEnvelope::of(DeletedChannel { id }))
}
