//! `GET /v1/notification-deliveries`

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::record::DeliveryRecord;
use crate::api::authentication::ReadAccess;
use crate::api::openapi::{BadQuery, Usual};
use crate::api::paging::{PageSizes, Paging};
use crate::api::query::{Parameter, QueryParameters};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi, cursor, schemas};
use crate::domain::alert::delivery::DeliveryStatus;
use crate::domain::field_errors::FieldErrors;
use crate::store::{DeliveryPage, DeliveryQuery};

const PAGE_SIZES: PageSizes = PageSizes { default: 10, max: 100 };

/// A page of deliveries.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Deliveries {
    /// The deliveries, newest first.
    deliveries: Vec<DeliveryRecord>,
    page: u32,
    page_size: u32,
    /// The number of deliveries that match the filters; exact up to 10,000.
    total: u64,
    total_pages: u64,
    /// The start of the next page, if there is one.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// The parameters of `GET /v1/notification-deliveries`.
#[derive(Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DeliveryListQuery {
    /// Only deliveries to this channel
    #[param(value_type = Option<String>)]
    channel_id: Parameter,
    /// Only deliveries of this schedule
    #[param(value_type = Option<String>)]
    schedule_id: Parameter,
    /// Only deliveries with this status
    #[param(value_type = Option<schemas::DeliveryStatusName>, inline)]
    status: Parameter,
    /// The page number, from 1
    #[param(value_type = Option<u32>, minimum = 1)]
    page: Parameter,
    /// The page size; 10 by default
    #[param(value_type = Option<u32>, minimum = 1, maximum = 100)]
    page_size: Parameter,
    /// An alias of `pageSize`
    #[param(value_type = Option<u32>, minimum = 1, maximum = 100)]
    limit: Parameter,
    /// `nextCursor` of the previous page; `page` is then ignored
    #[param(value_type = Option<String>)]
    cursor: Parameter,
}

/// List deliveries of alerts
///
/// Final deliveries are kept for 30 days.
#[utoipa::path(
    get,
    path = "/v1/notification-deliveries",
    tag = "Notifications",
    params(DeliveryListQuery),
    responses(
        (status = 200, description = "The page", body = DataEnvelope<Deliveries>),
        BadQuery,
        Usual,
    ),
)]
pub(super) async fn list_deliveries(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
    QueryParameters(query): QueryParameters<DeliveryListQuery>,
) -> Result<DataEnvelope<Deliveries>, ApiError> {
    let (query, paging) = check(query)?;
    let page = match query {
        Some(query) => api.notifications.deliveries(account, &query).await?,
        None => DeliveryPage::default(),
    };
    let last = page.deliveries.last().filter(|_| page.has_more);
    Ok(DataEnvelope::of(Deliveries {
        next_cursor: last.map(|last| cursor::after_delivery(last.id)),
        deliveries: page.deliveries.into_iter().map(DeliveryRecord::from).collect(),
        page: paging.page,
        page_size: paging.size,
        total: page.total,
        total_pages: paging.pages(page.total),
    }))
}

/// Checks the parameters. The query is absent if `channelId` or `scheduleId` is malformed: no
/// delivery can match it, so the page is empty.
fn check(query: DeliveryListQuery) -> Result<(Option<DeliveryQuery>, Paging), FieldErrors> {
    let mut errors = FieldErrors::new();
    let limit = PAGE_SIZES.read(query.page_size, query.limit, &mut errors);
    let paging = Paging::read(query.page, limit, &mut errors);
    let status = query.status.one_of("status", DeliveryStatus::ALL, &mut errors);
    let after = cursor::delivery(query.cursor, &mut errors);
    let offset = if after.is_some() { 0 } else { paging.offset() };
    let asked = match (query.channel_id.id().transpose(), query.schedule_id.id().transpose()) {
        (Ok(channel), Ok(schedule)) => {
            Some(DeliveryQuery { channel, schedule, status, after, offset, limit })
        }
        _ => None,
    };
    errors.unless_any((asked, paging))
}
