//! All data of accounts: its export, and its removal after an account is deleted.
//!
//! Deleting an account moves its row from `accounts` to `deleted_accounts`. From then on no key and
//! no user has access to it. A replica that has already authenticated a caller of the account
//! returns none of its data. Its schedules do not fire, and its jobs are not claimed. Passes of
//! [`DeletionStore::erase`] then remove its rows. Each pass is one transaction, so it is safe to
//! stop at any point and to continue later.

use std::time::Duration;

use crate::domain::schedule::{Definition, Skip, UnreadableFields};
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, ScheduleId, Timestamp, VersionId};
use crate::runtime::measured;
use crate::store::{Result, WriteContext};

/// The minimum time between the deletion of an account and the time at which it is recorded as
/// gone. Calls that were under way at the deletion may still add rows.
pub const SETTLED: Duration = Duration::from_secs(300);

/// An account that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedAccount {
    /// Its id.
    pub id: AccountId,
    /// Its last name.
    pub name: String,
    /// The time of the deletion.
    pub deleted_at: Timestamp,
    /// The text of the [`Actor`](crate::domain::audit::Actor) that deleted it.
    pub actor: String,
    /// The text of the [`Origin`](crate::domain::audit::Origin) of the deletion.
    pub origin: String,
    /// The time at which the last of its rows was found removed; absent while rows may be left.
    pub gone_at: Option<Timestamp>,
}

/// The position of an account in the list of deleted accounts: the time of its deletion, and its
/// id.
pub type DeletedPosition = (Timestamp, AccountId);

impl DeletedAccount {
    /// Returns the position in the list of deleted accounts.
    pub fn position(&self) -> DeletedPosition {
        (self.deleted_at, self.id)
    }
}

/// The result of one pass of removing the rows of a deleted account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErasureResult {
    /// The number of removed rows, without those that depend on another one, such as the attempts
    /// of a job.
    pub rows: u64,
    /// The removed schedules, which the due index must remove, too.
    pub schedules: Vec<(ShardId, ScheduleId)>,
    /// `true` once no rows are left and none can be added.
    pub gone: bool,
}

/// A stored version of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredVersion {
    /// Its id.
    pub id: VersionId,
    /// The schedule, which may be deleted.
    pub schedule: ScheduleId,
    /// The definition.
    pub definition: Definition,
    /// The fields of the definition that cannot be decrypted.
    pub unreadable: UnreadableFields,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time since which no schedule uses it.
    pub retired_at: Option<Timestamp>,
}

/// The position of a skip in the list of [`DeletionStore::skips_of`]: its first tick, and its
/// number.
pub type SkipPosition = (Timestamp, i64);

/// A skip, with its schedule and its position in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSkip {
    /// The position of the skip; the next page begins after that of the last skip.
    pub position: SkipPosition,
    /// The schedule, which may be deleted.
    pub schedule: ScheduleId,
    /// The skip.
    pub skip: Skip,
}

/// An account's counter of jobs for one month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMonth {
    /// The month (UTC), as `year * 100 + month`.
    pub month: i64,
    /// The number of reserved jobs.
    pub reserved: u64,
    /// The time at which the month's quota was found to be used up.
    pub exhausted_at: Option<Timestamp>,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// All data of accounts, their deletion, and the removal of their rows.
    pub trait DeletionStore: Send + Sync {
        /// Returns at most `limit` versions of an account's schedules, including deleted schedules,
        /// after `after` in the order of their ids.
        async fn versions(
            &self,
            account: AccountId,
            after: Option<VersionId>,
            limit: u32,
        ) -> Result<Vec<StoredVersion>>;

        /// Returns at most `limit` skips of an account's schedules, including deleted schedules,
        /// after `after`, oldest first.
        async fn skips_of(
            &self,
            account: AccountId,
            after: Option<SkipPosition>,
            limit: u32,
        ) -> Result<Vec<StoredSkip>>;

        /// Returns an account's counters of jobs, in the order of the months.
        async fn months(&self, account: AccountId) -> Result<Vec<StoredMonth>>;

        /// Deletes the account of `write`. Its name can then be used again. Returns `false` if
        /// there is no such account. The deletion, with its time and its actor, is recorded for
        /// [`Self::deleted_accounts`] and in the audit log of the
        /// [`INSTALLATION`](crate::store::INSTALLATION), as long as that log is kept.
        async fn delete_account(&self, write: &WriteContext) -> Result<bool>;

        /// Returns all deleted accounts, oldest deletion first.
        async fn deleted_accounts(&self) -> Result<Vec<DeletedAccount>>;

        /// Returns at most `limit` deleted accounts that may have rows left, after the position
        /// `after`, oldest deletion first.
        async fn accounts_to_erase(
            &self,
            after: Option<DeletedPosition>,
            limit: u32,
        ) -> Result<Vec<DeletedAccount>>;

        /// Returns the number of rows that a deleted account still has, counted up to a million in
        /// each table.
        async fn rows_left(&self, account: AccountId) -> Result<u64>;

        /// Removes at most `limit` rows of one kind of a deleted account, with the rows that depend
        /// on them: schedules first, then jobs in any state, then the other kinds. Locked rows are
        /// skipped, and the next kind follows only when no row of this kind is left. Does nothing
        /// for an account that is not deleted. Of concurrent calls only one removes rows.
        async fn erase(&self, account: AccountId, now: Timestamp, limit: u32) -> Result<ErasureResult>;
    }
}
