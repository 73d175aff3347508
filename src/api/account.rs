//! `GET /v1/account`

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::guard::Reader;
use super::openapi::Usual;
use super::reply::Data;
use super::{ApiError, SharedApi};
use crate::accounts::Overview;
use crate::domain::AccountId;

/// The account that the key belongs to.
#[derive(Serialize, ToSchema)]
#[schema(as = Account)]
pub(super) struct AccountRecord {
    #[schema(value_type = String, examples("acc_01HF7YAT000000000000000007"))]
    id: AccountId,
    name: String,
    #[schema(examples("unlimited"))]
    plan: &'static str,
    limits: Limits,
    usage: UsageRecord,
}

/// What the plan allows; null is no limit.
#[derive(Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Limits {
    #[schema(required)]
    schedules: Option<u64>,
    #[schema(required)]
    api_keys: Option<u64>,
    #[schema(required)]
    jobs_per_month: Option<u64>,
}

/// What the account uses.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Usage)]
pub(super) struct UsageRecord {
    schedules: u64,
    api_keys: u64,
    /// Since the start of the calendar month, in UTC.
    jobs_this_month: u64,
}

impl From<Overview> for AccountRecord {
    fn from(Overview { account, usage }: Overview) -> Self {
        Self {
            id: account.id,
            name: account.name,
            plan: "unlimited",
            limits: Limits::default(),
            usage: UsageRecord {
                schedules: usage.schedules,
                api_keys: usage.keys,
                jobs_this_month: usage.jobs_this_month,
            },
        }
    }
}

/// Get the account of the key
#[utoipa::path(
    get,
    path = "/v1/account",
    tag = "Account",
    responses(
        (status = 200, description = "The account", body = Data<AccountRecord>),
        Usual,
    ),
)]
pub(super) async fn get_account(
    State(api): State<SharedApi>,
    Reader(account): Reader,
) -> Result<Data<AccountRecord>, ApiError> {
    let overview = api.accounts.overview(account).await?;
    let overview = overview.ok_or_else(|| ApiError::internal("the account of a key is gone"))?;
    Ok(Data::of(overview.into()))
}
