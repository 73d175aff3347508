//! `GET /v1/notification-deliveries/{id}`

use axum::extract::State;

use super::record::DeliveryRecord;
use crate::api::authentication::ReadAccess;
use crate::api::id::DeliveryInPath;
use crate::api::openapi::{NoSuchDelivery, Usual};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi};

/// Get a delivery with its tries
#[utoipa::path(
    get,
    path = "/v1/notification-deliveries/{id}",
    tag = "Notifications",
    params(("id" = String, Path, description = "The delivery's id")),
    responses(
        (status = 200, description = "The delivery", body = DataEnvelope<DeliveryRecord>),
        NoSuchDelivery,
        Usual,
    ),
)]
pub(super) async fn get_delivery(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
    DeliveryInPath(id): DeliveryInPath,
) -> Result<DataEnvelope<DeliveryRecord>, ApiError> {
    Ok(DataEnvelope::of(api.notifications.delivery(account, id).await?.into()))
}
