//! `GET /v1/notification-channels`

use axum::extract::State;
use serde::Deserialize;

use super::record::ChannelRecord;
use crate::api::authentication::ReadAccess;
use crate::api::openapi::{BadQuery, Usual};
use crate::api::query::{Parameter, QueryParameters};
use crate::api::reply::DataEnvelope;
use crate::api::{ApiError, SharedApi, schemas};
use crate::domain::field_errors::FieldErrors;
use crate::domain::plan::ChannelType;
use crate::notifications::ChannelFilter;

/// The parameters of `GET /v1/notification-channels`.
#[derive(Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ChannelListQuery {
    /// Only channels of this type
    #[serde(rename = "type")]
    #[param(value_type = Option<schemas::ChannelTypeName>, inline)]
    kind: Parameter,
    /// Only verified channels (`true`) or unverified ones (`false`)
    #[param(value_type = Option<bool>)]
    verified: Parameter,
}

/// List notification channels
///
/// All channels of the account, newest first.
#[utoipa::path(
    get,
    path = "/v1/notification-channels",
    tag = "Notifications",
    params(ChannelListQuery),
    responses(
        (status = 200, description = "The channels", body = DataEnvelope<Vec<ChannelRecord>>),
        BadQuery,
        Usual,
    ),
)]
pub(super) async fn list_channels(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
    QueryParameters(query): QueryParameters<ChannelListQuery>,
) -> Result<DataEnvelope<Vec<ChannelRecord>>, ApiError> {
    let channels = api.notifications.channels(account, check(query)?).await?;
    Ok(DataEnvelope::of(channels.into_iter().map(ChannelRecord::from).collect()))
}

fn check(query: ChannelListQuery) -> Result<ChannelFilter, FieldErrors> {
    let mut errors = FieldErrors::new();
    let kind = query.kind.one_of("type", ChannelType::ALL, &mut errors);
    let verified = query.verified.flag("verified", &mut errors);
    errors.unless_any(ChannelFilter { kind, verified })
}
