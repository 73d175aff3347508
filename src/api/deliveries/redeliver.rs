//! `POST /v1/notification-deliveries/{id}/redeliver`

use axum::extract::State;

use super::record::DeliveryRecord;
use crate::api::authentication::WriteAccess;
use crate::api::id::DeliveryInPath;
use crate::api::openapi::{Conflict, Forbidden, NoSuchDelivery, Usual};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi};

/// Send a failed alert again
///
/// The first of up to five tries begins at once. The answer is a conflict if the delivery has not
/// failed, or if its channel was deleted or is not verified.
#[utoipa::path(
    post,
    path = "/v1/notification-deliveries/{id}/redeliver",
    tag = "Notifications",
    params(("id" = String, Path, description = "The delivery's id")),
    responses(
        (status = 200, description = "The delivery in its new state", body = DataEnvelope<DeliveryRecord>),
        Forbidden,
        NoSuchDelivery,
        Conflict,
        Usual,
    ),
)]
pub(super) async fn redeliver(
    State(api): State<SharedApi>,
    WriteAccess(account, call): WriteAccess,
    DeliveryInPath(id): DeliveryInPath,
) -> Result<DataEnvelope<DeliveryRecord>, ApiError> {
    Ok(DataEnvelope::of(api.notifications.redeliver(account, call, id).await?.into()))
}
