//! `GET /v1/account`

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::authentication::{ReadAccess, account_gone};
use super::openapi::Usual;
use super::reply::DataEnvelope;
use super::{ApiError, SharedApi};
use crate::accounts::{AccountOverview, RateLimits};
use crate::domain::key::MAX_KEYS;
use crate::domain::plan::Plan;
use crate::domain::{AccountId, Timestamp};

/// The account that the key belongs to.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Account)]
pub(super) struct AccountRecord {
    #[schema(value_type = String, examples("acc_01HF7YAT000000000000000007"))]
    id: AccountId,
    name: String,
    #[schema(examples("unlimited"))]
    plan: String,
    /// The time of the suspension, since when its schedules do not run and its data is read-only.
    #[schema(required, value_type = Option<String>)]
    suspended_at: Option<Timestamp>,
    limits: Limits,
    usage: UsageRecord,
}

/// The limits of the plan; `null` means no limit.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Limits {
    #[schema(required)]
    schedules: Option<u64>,
    api_keys: u64,
    /// The minimum time between two runs of a schedule.
    #[schema(required)]
    shortest_interval_seconds: Option<u64>,
    #[schema(required)]
    jobs_per_month: Option<u64>,
    #[schema(required)]
    concurrent_attempts: Option<u64>,
    #[schema(required)]
    channels: Option<u64>,
    #[schema(required)]
    channel_types: Option<Vec<String>>,
    #[schema(required)]
    notify_on: Option<Vec<String>>,
    #[schema(required)]
    body_bytes: Option<u64>,
    #[schema(required)]
    history_days: Option<u64>,
    /// The maximum number of API requests of each key in a minute.
    #[schema(required)]
    requests_per_minute: Option<u32>,
    /// The maximum number of API requests of each key in an hour.
    #[schema(required)]
    requests_per_hour: Option<u32>,
}

impl Limits {
    fn of(plan: &Plan, rates: RateLimits) -> Self {
        let some = |rate: u32| (rate > 0).then_some(rate);
        Self {
            schedules: plan.schedules,
            api_keys: MAX_KEYS,
            shortest_interval_seconds: plan.shortest_interval.map(|shortest| shortest.as_secs()),
            jobs_per_month: plan.jobs_per_month,
            concurrent_attempts: plan.concurrent_attempts,
            channels: plan.channels,
            channel_types: plan.channel_types.as_deref().map(names),
            notify_on: plan.notify_on.as_deref().map(names),
            body_bytes: plan.body_bytes,
            history_days: plan.history_days,
            requests_per_minute: some(rates.per_minute),
            requests_per_hour: some(rates.per_hour),
        }
    }
}

fn names<T: ToString>(items: &[T]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

/// The usage of the account.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Usage)]
pub(super) struct UsageRecord {
    schedules: u64,
    api_keys: u64,
    channels: u64,
    /// The jobs of the current calendar month, in UTC: those that ended, and those that exist and
    /// have not ended. If the plan limits them, the jobs that were created or are about to be
    /// created.
    jobs_this_month: u64,
    /// The time at which the jobs of this month were used up: ticks since then are skipped.
    #[schema(required, value_type = Option<String>)]
    quota_exhausted_at: Option<Timestamp>,
}

impl AccountRecord {
    fn new(overview: AccountOverview, rates: RateLimits) -> Self {
        let quota_exhausted_at = overview.quota_exhausted_at();
        let AccountOverview { account, plan, usage, jobs_this_month } = overview;
        Self {
            id: account.id,
            name: account.name,
            limits: Limits::of(&plan, rates),
            plan: account.plan,
            suspended_at: account.suspended_at,
            usage: UsageRecord {
                schedules: usage.schedules,
                api_keys: usage.keys,
                channels: usage.channels,
                jobs_this_month,
                quota_exhausted_at,
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
        (status = 200, description = "The account", body = DataEnvelope<AccountRecord>),
        Usual,
    ),
)]
pub(super) async fn get_account(
    State(api): State<SharedApi>,
    ReadAccess(account): ReadAccess,
) -> Result<DataEnvelope<AccountRecord>, ApiError> {
    let overview = api.accounts.overview(account).await?;
    let overview = overview.ok_or_else(account_gone)?;
    let rates = api.authenticator.rates(&overview.plan);
    Ok(DataEnvelope::of(AccountRecord::new(overview, rates)))
}
