//! `GET /v1/notification-deliveries`

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::record::DeliveryRecord;
use crate::api::authentication::ReadAccess;
use crate::api::openapi::{BadQuery, Usual};
use crate::api::paging::Paging;
use crate::api::query::QueryParameters;
use crate::api::reply::Data;
use crate::api::{ApiError, SharedApi, cursor, schemas};
use crate::domain::alert::delivery::DeliveryStatus;
use crate::domain::field_errors::FieldErrors;
use crate::store::{DeliveryPage, DeliveryQuery};

const USUAL_PAGE: u32 = 10;
const LARGEST_PAGE: u32 = 100;

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

/// List deliveries of alerts
///
/// Final deliveries are kept for 30 days.
#[utoipa::path(
    get,
    path = "/v1/notification-deliveries",
    tag = "Notifications",
    params(
        ("channelId" = Option<String>, Query, description = "Only deliveries to this channel"),
        ("scheduleId" = Option<String>, Query, description = "Only deliveries of this schedule"),
        ("status" = inline(Option<schemas::DeliveryStatusName>), Query, description = "Only deliveries with this status"),
        ("page" = Option<u32>, Query, description = "The page number, from 1", minimum = 1),
        ("pageSize" = Option<u32>, Query, description = "The page size; 10 by default", minimum = 1, maximum = 100),
        ("limit" = Option<u32>, Query, description = "An alias of `pageSize`", minimum = 1, maximum = 100),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page; `page` is then ignored"),
    ),
    responses(
        (status = 200, description = "The page", body = Data<Deliveries>),
        BadQuery,
        Usual,
    ),
)]
pub(super) async fn list_deliveries(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
    query: QueryParameters,
) -> Result<Data<Deliveries>, ApiError> {
    let (query, paging) = read(query)?;
    let page = match query {
        Some(query) => api.notifications.deliveries(account, &query).await?,
        None => DeliveryPage::default(),
    };
    let last = page.deliveries.last().filter(|_| page.has_more);
    Ok(Data::of(Deliveries {
        next_cursor: last.map(|last| cursor::after_delivery(last.id)),
        deliveries: page.deliveries.into_iter().map(DeliveryRecord::from).collect(),
        page: paging.page,
        page_size: paging.size,
        total: page.total,
        total_pages: paging.pages(page.total),
    }))
}

/// Reads the query parameters. The query is absent if `channelId` or `scheduleId` is malformed: no
/// delivery can match it, so the page is empty.
fn read(mut query: QueryParameters) -> Result<(Option<DeliveryQuery>, Paging), FieldErrors> {
    let paging = Paging::read(&mut query, USUAL_PAGE, LARGEST_PAGE);
    let channel = query.id("channelId").map(|text| text.parse()).transpose();
    let schedule = query.id("scheduleId").map(|text| text.parse()).transpose();
    let status = query.one_of("status", DeliveryStatus::ALL);
    let after = cursor::delivery(&mut query);
    let offset = if after.is_some() { 0 } else { paging.offset() };
    let asked = match (channel, schedule) {
        (Ok(channel), Ok(schedule)) => {
            Some(DeliveryQuery { channel, schedule, status, after, offset, limit: paging.size })
        }
        _ => None,
    };
    query.finish((asked, paging))
}
