//! The endpoints of deliveries.

mod get;
mod list;
mod record;
mod redeliver;

pub(in crate::api) use record::DeliveryRecord;

use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::reply::DataEnvelope;
use super::{Api, ApiError, SharedApi};
use crate::domain::AccountId;
use crate::notifications::NotificationError;

/// Returns the routes of deliveries.
pub(super) fn routes() -> OpenApiRouter<SharedApi> {
    OpenApiRouter::default()
        .routes(routes!(list::list_deliveries))
        .routes(routes!(get::get_delivery))
        .routes(routes!(redeliver::redeliver))
}

/// Rebuilds the answer to a redelivery from the delivery's id. The answer is lost if the delivery
/// was removed since.
pub(super) async fn redelivered(
    api: &Api,
    account: AccountId,
    id: &str,
) -> Result<Response, ApiError> {
    let id = id.parse().map_err(|_| ApiError::answer_lost())?;
    match api.notifications.delivery(account, id).await {
        Err(NotificationError::NoSuchDelivery) => Err(ApiError::answer_lost()),
        found => Ok(DataEnvelope::of(DeliveryRecord::from(found?)).into_response()),
    }
}
