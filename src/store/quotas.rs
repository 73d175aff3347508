//! Jobs per month, of accounts whose plan limits them.
//!
//! A counter for each account and month holds how many jobs may have been made. Whoever makes jobs
//! reserves them first; leaders reserve some ahead, so that they seldom ask. What was reserved and
//! not made is lost to the account: at most what was reserved ahead.

use async_trait::async_trait;

use super::Result;
use crate::domain::{AccountId, Timestamp};

/// Jobs that are to be made for an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The account.
    pub account: AccountId,
    /// How many its plan allows in a month.
    pub quota: u64,
    /// How many are to be made at once.
    pub jobs: u32,
}

/// What was reserved for an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The account.
    pub account: AccountId,
    /// How many may be made; fewer than wanted if the quota is used up.
    pub jobs: u64,
    /// Whether the quota has been found used up for the first time in this month.
    pub newly_exhausted: bool,
}

/// Jobs per month.
#[async_trait]
pub trait QuotaStore: Send + Sync {
    /// Reserves jobs in the month (UTC) of `now`: what is wanted or, if that is more, 1 % of what
    /// is left, up to `ahead`; never more than is left. The accounts are all different. The first
    /// call of a month counts the jobs that the account has made in it before.
    async fn reserve_jobs(
        &self,
        now: Timestamp,
        ahead: u32,
        wanted: &[Wanted],
    ) -> Result<Vec<Granted>>;

    /// The names of the plans of accounts; those that are not there are left out.
    async fn plans_of(&self, accounts: &[AccountId]) -> Result<Vec<(AccountId, String)>>;
}

/// A number of jobs as a column holds it.
pub(in crate::store) fn jobs(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
