//! `POST /v1/notification-channels/{id}/verify`

use axum::extract::State;

use super::record::ChannelRecord;
use crate::api::authentication::WriteAccess;
use crate::api::id::ChannelInPath;
use crate::api::limits::exceeded;
use crate::api::openapi::{Conflict, Forbidden, NoSuchChannel, NotVerified, Usual};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi};

/// Verify a notification channel
///
/// Sends one test notification, within 10 s. If it fails, `verified` does not change. A channel
/// gets at most 5 test notifications per hour, and the channels of an account get 20 per minute and
/// 60 per hour.
#[utoipa::path(
    post,
    path = "/v1/notification-channels/{id}/verify",
    tag = "Notifications",
    params(("id" = String, Path, description = "The channel's id")),
    responses(
        (status = 200, description = "The verified channel", body = DataEnvelope<ChannelRecord>),
        Forbidden,
        NoSuchChannel,
        Conflict,
        NotVerified,
        Usual,
    ),
)]
pub(super) async fn verify_channel(
    State(api): State<SharedApi>,
    WriteAccess(account, call): WriteAccess,
    ChannelInPath(id): ChannelInPath,
) -> Result<DataEnvelope<ChannelRecord>, ApiError> {
    let now = api.clock.now();
    let admission = api.throttle.channel_test(account, now).await;
    if !admission.allowed {
        return Err(exceeded(admission.window_state, now));
    }
    Ok(DataEnvelope::of(api.notifications.verify_channel(account, call, id).await?.into()))
}
