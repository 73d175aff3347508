//! Jobs per month, of accounts whose plan limits them.
//!
//! A counter for each account and month holds how many jobs may have been made. Leaders reserve some
//! ahead, so that they seldom ask; jobs that users ask for are counted by the transaction that makes
//! them. What was reserved and not made is lost to the account: at most what was reserved ahead.
//!
//! A counter is forgotten when the account gets another plan, since the one before may not have
//! limited its jobs: then those that there are in the month are counted. What it held is kept under
//! the negative number of its month, for history may have been pruned since: the new one holds no
//! less.

use super::Result;
use crate::domain::{AccountId, Timestamp};
use crate::runtime::measured;

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
    /// How many are reserved in the month, these among them.
    pub reserved: u64,
    /// Whether the quota has been found used up for the first time in this month, or for the first
    /// time since there was more again.
    pub newly_exhausted: bool,
}

/// What has come of reserving jobs for several accounts. Those that are in none of its lists have
/// no counter yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// What was reserved.
    pub granted: Vec<Granted>,
    /// The accounts whose counter somebody else holds just now.
    pub held: Vec<AccountId>,
}

/// Why a job was not made: the month's are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedUp {
    /// How many are reserved in the month.
    pub reserved: u64,
    /// Whether that was found for the first time.
    pub newly: bool,
}

impl Granted {
    /// Whether nothing was granted.
    pub(in crate::store) fn used_up(&self) -> Option<UsedUp> {
        let Self { reserved, newly_exhausted: newly, .. } = *self;
        (self.jobs == 0).then_some(UsedUp { reserved, newly })
    }
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Jobs per month.
    pub trait QuotaStore: Send + Sync {
        /// Reserves jobs in the month (UTC) of `now`: what is wanted or, if that is more, 1 % of what
        /// is left, up to `ahead`; never more than is left. The accounts are all different. Nobody waits
        /// for counters that are held.
        async fn reserve_jobs(&self, now: Timestamp, ahead: u32, wanted: &[Wanted]) -> Result<Grants>;

        /// The same for one account, whose counter is waited for if somebody else holds it: a quarter of
        /// a second at most. Those who wait get it in the order in which they came. `None` if it is still
        /// held, or is not there.
        async fn await_jobs(
            &self,
            now: Timestamp,
            ahead: u32,
            wanted: &Wanted,
        ) -> Result<Option<Granted>>;

        /// Makes the counters of the month that are not there yet, with the jobs that the accounts have
        /// made in it before. That may take a minute for one with millions of them, and goes on if this
        /// is dropped: however often it is called, an account is counted once at a time. Of several
        /// processes that count it, the first one that has come to its end decides.
        async fn begin_months(&self, now: Timestamp, accounts: &[AccountId]) -> Result<()>;

        /// The names of the plans of accounts; those that are not there are left out.
        async fn plans_of(&self, accounts: &[AccountId]) -> Result<Vec<(AccountId, String)>>;
    }
}

/// A number of jobs as a column holds it.
pub(in crate::store) fn jobs(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
