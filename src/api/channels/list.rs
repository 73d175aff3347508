//! `GET /v1/notification-channels`

use axum::extract::State;

use super::record::ChannelRecord;
use crate::api::authentication::ReadAccess;
use crate::api::openapi::{BadQuery, Usual};
use crate::api::query::QueryParameters;
use crate::api::reply::Data;
use crate::api::{ApiError, SharedApi, schemas};
use crate::domain::field_errors::FieldErrors;
use crate::domain::plan::ChannelType;
use crate::notifications::ChannelFilter;

/// List notification channels
///
/// All channels of the account, newest first.
#[utoipa::path(
    get,
    path = "/v1/notification-channels",
    tag = "Notifications",
    params(
        ("type" = inline(Option<schemas::ChannelTypeName>), Query, description = "Only channels of this type"),
        ("verified" = Option<bool>, Query, description = "Only verified channels (`true`) or unverified ones (`false`)"),
    ),
    responses(
        (status = 200, description = "The channels", body = Data<Vec<ChannelRecord>>),
        BadQuery,
        Usual,
    ),
)]
pub(super) async fn list_channels(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
    query: QueryParameters,
) -> Result<Data<Vec<ChannelRecord>>, ApiError> {
    let channels = api.notifications.channels(account, read(query)?).await?;
    Ok(Data::of(channels.into_iter().map(ChannelRecord::from).collect()))
}

fn read(mut query: QueryParameters) -> Result<ChannelFilter, FieldErrors> {
    let kind = query.one_of("type", ChannelType::ALL);
    let verified = query.flag("verified");
    query.finish(ChannelFilter { kind, verified })
}
