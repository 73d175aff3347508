//! The endpoints of notification channels.

mod create;
mod get;
mod list;
mod record;
mod remove;
mod rotate_secret;
mod update;
mod verify;

pub(in crate::api) use record::ChannelRecord;

use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::reply::DataEnvelope;
use super::{Api, ApiError, SharedApi};
use crate::domain::AccountId;
use crate::domain::channel::Channel;
use crate::domain::plan::ChannelType;
use crate::notifications::{ChannelWithSecret, NotificationError};

/// Returns the routes of notification channels.
pub(super) fn routes() -> OpenApiRouter<SharedApi> {
    OpenApiRouter::default()
        .routes(routes!(list::list_channels, create::create_channel))
        .routes(routes!(
            get::get_channel,
            update::put_channel,
            update::patch_channel,
            remove::delete_channel
        ))
        .routes(routes!(verify::verify_channel))
        .routes(routes!(rotate_secret::rotate_secret))
}

/// Rebuilds the answer to the creation of a channel from its id. The answer about a webhook is
/// lost: its generated secret cannot be shown again, and an answer without it would look complete.
pub(super) async fn created(api: &Api, account: AccountId, id: &str) -> Result<Response, ApiError> {
    let channel = find_channel(api, account, id).await?;
    if channel.kind == ChannelType::Webhook {
        return Err(ApiError::answer_lost());
    }
    Ok(create::answer(api, ChannelWithSecret { channel, secret: None }))
}

/// Rebuilds the answer to a verification from the channel's id.
pub(super) async fn verified(
    api: &Api,
    account: AccountId,
    id: &str,
) -> Result<Response, ApiError> {
    let channel = find_channel(api, account, id).await?;
    Ok(DataEnvelope::of(ChannelRecord::from(channel)).into_response())
}

/// Returns the channel that a call created or verified. The answer is lost if it was deleted since.
async fn find_channel(api: &Api, account: AccountId, id: &str) -> Result<Channel, ApiError> {
    let id = id.parse().map_err(|_| ApiError::answer_lost())?;
    match api.notifications.channel(account, id).await {
        Err(NotificationError::NoSuchChannel) => Err(ApiError::answer_lost()),
        found => Ok(found?),
    }
}
