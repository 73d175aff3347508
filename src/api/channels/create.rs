//! `POST /v1/notification-channels`

use axum::extract::State;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};

use super::record::SecretRecord;
use crate::api::authentication::WriteAccess;
use crate::api::body::JsonBody;
use crate::api::openapi::{BadBody, Forbidden, Usual};
use crate::api::reply::{self, DataEnvelope};
use crate::api::{Api, ApiError, SharedApi};
use crate::domain::request_body::object;
use crate::notifications::{ChannelCreation, ChannelWithSecret};

/// Create a notification channel
///
/// A channel must be verified before it can be attached to a schedule.
#[utoipa::path(
    post,
    path = "/v1/notification-channels",
    tag = "Notifications",
    request_body = ChannelCreation,
    responses(
        (status = 201, description = "The channel", body = DataEnvelope<SecretRecord>,
            headers(("Location" = String, description = "Its path"))),
        BadBody,
        Forbidden,
        Usual,
    ),
)]
pub(super) async fn create_channel(
    State(api): State<SharedApi>,
    WriteAccess(account, call): WriteAccess,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let request: ChannelCreation = object(&body)?;
    let created = api.notifications.create_channel(account, call, request).await?;
    Ok(answer(&api, created))
}

/// Returns the answer to the creation of a channel.
pub(super) fn answer(api: &Api, created: ChannelWithSecret) -> Response {
    let base = api.base_path.as_str();
    let location = format!("{base}/v1/notification-channels/{}", created.channel.id);
    let record = SecretRecord::from(created);
    let mut response = reply::json(StatusCode::CREATED, &DataEnvelope::of(record));
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}
