//! The finished jobs of accounts, counted by the hour of their end.
//!
//! The transaction that ends a job adds it to its hour, so a job is counted once, and only if it is
//! in the history. Pruning of the history does not change the hours.

use std::time::Duration;

use crate::domain::hours::AccountHour;
use crate::domain::{AccountId, Timestamp};
use crate::runtime::measured;
use crate::store::Result;

/// The time for which hours are kept.
pub const HOURS_KEPT: Duration = Duration::from_hours(35 * 24);

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// The finished jobs of accounts by hour.
    pub trait HourStore: Send + Sync {
        /// Returns the hours (UTC) of an account that begin at `from` or later and in which jobs
        /// ended, in order. Jobs that ended before the store had hours are not counted.
        async fn hours(&self, account: AccountId, from: Timestamp) -> Result<Vec<AccountHour>>;

        /// Deletes rows of hours that ended before `before`, of all accounts, oldest first; at most
        /// `limit`. Returns their number. Of concurrent calls only one deletes rows.
        async fn prune_hours(&self, before: Timestamp, limit: u32) -> Result<u64>;
    }
}
