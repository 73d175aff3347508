//! The monthly job quotas of accounts whose plan has one.
//!
//! A counter per account and month holds the number of jobs that may have been made. Leaders
//! reserve jobs ahead, so that they rarely ask. Jobs that users ask for are counted by the
//! transaction that makes them. Reserved jobs that are never made are lost to the account, but no
//! more than were reserved ahead.
//!
//! When an account gets another plan, its counter is forgotten, because the previous plan may have
//! had no quota. Then the jobs that exist in the month are counted. Some of them may have been
//! pruned, so the old value is kept under the negative number of its month, and the new counter is
//! never lower.

use crate::domain::{AccountId, Timestamp};
use crate::runtime::measured;
use crate::store::Result;

/// The jobs to make for an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedJobs {
    /// The account.
    pub account: AccountId,
    /// The number of jobs that its plan allows in a month.
    pub quota: u64,
    /// The number of jobs to make now.
    pub jobs: u32,
}

/// The jobs that were reserved for an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantedJobs {
    /// The account.
    pub account: AccountId,
    /// The number of jobs that may be made. It is less than requested if the quota is used up.
    pub jobs: u64,
    /// The number of jobs reserved in the month, including these.
    pub reserved: u64,
    /// `true` if this call was the first to find the quota used up, in this month or since jobs
    /// last became available again.
    pub newly_exhausted: bool,
}

/// The result of reserving jobs for several accounts. Accounts in neither list have no counter yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobGrants {
    /// The jobs that were reserved.
    pub granted: Vec<GrantedJobs>,
    /// The accounts whose counter another transaction has locked.
    pub held: Vec<AccountId>,
}

/// The reason why a job was not made: the quota of the month is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedUp {
    /// The number of jobs reserved in the month.
    pub reserved: u64,
    /// `true` if this was found for the first time.
    pub newly: bool,
}

impl GrantedJobs {
    /// Returns the reason if nothing was granted.
    pub(in crate::store) fn used_up(&self) -> Option<UsedUp> {
        let Self { reserved, newly_exhausted: newly, .. } = *self;
        (self.jobs == 0).then_some(UsedUp { reserved, newly })
    }
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Monthly job quotas.
    pub trait QuotaStore: Send + Sync {
        /// Reserves jobs in the month (UTC) of `now`: the requested number or, if that is more, 1 %
        /// of the rest of the quota, up to `ahead`; never more than the rest. The accounts must all
        /// be different. Locked counters are not waited for.
        async fn reserve_jobs(&self, now: Timestamp, ahead: u32, wanted: &[WantedJobs]) -> Result<JobGrants>;

        /// Does the same for one account, but waits for a locked counter, a quarter of a second at
        /// most. Waiting calls get the counter in the order of their arrival. Returns `None` if the
        /// counter is still locked or does not exist.
        async fn await_jobs(
            &self,
            now: Timestamp,
            ahead: u32,
            wanted: &WantedJobs,
        ) -> Result<Option<GrantedJobs>>;

        /// Creates the missing counters of the month, with the number of jobs that the accounts
        /// have already made in it. This may take a minute for an account with millions of jobs,
        /// and continues if the future is dropped. However often it is called, one process counts
        /// an account only once at a time. If several processes count it, the first to finish
        /// decides.
        async fn begin_months(&self, now: Timestamp, accounts: &[AccountId]) -> Result<()>;

        /// Returns the names of the accounts' plans. Accounts that do not exist are left out.
        async fn plans_of(&self, accounts: &[AccountId]) -> Result<Vec<(AccountId, String)>>;
    }
}

/// Returns a number of jobs in the type of a column.
pub(in crate::store) fn jobs(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
