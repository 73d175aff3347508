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

/// The maximum to which the remaining rows of a deleted account are counted in each table.
pub(in crate::store) const ROWS_COUNTED: i64 = 1_000_000;

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

/// The place of an account in the list of deleted accounts: the time of its deletion, and its id.
pub type DeletedPlace = (Timestamp, AccountId);

impl DeletedAccount {
    /// Returns the place in the list of deleted accounts.
    pub fn place(&self) -> DeletedPlace {
        (self.deleted_at, self.id)
    }
}

/// The result of one pass of removing the rows of a deleted account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erased {
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

/// The place of a skip in the list of [`DeletionStore::skips_of`]: its first tick, and its number.
pub type SkipPlace = (Timestamp, i64);

/// A skip, with its schedule and its place in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSkip {
    /// The place of the skip; the next page begins after that of the last skip.
    pub place: SkipPlace,
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
            after: Option<SkipPlace>,
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

        /// Returns at most `limit` deleted accounts that may have rows left, after the place
        /// `after`, oldest deletion first.
        async fn going_accounts(
            &self,
            after: Option<DeletedPlace>,
            limit: u32,
        ) -> Result<Vec<DeletedAccount>>;

        /// Returns the number of rows that a deleted account still has, counted up to a million in
        /// each table.
        async fn rows_left(&self, account: AccountId) -> Result<u64>;

        /// Removes at most `limit` rows of one kind of a deleted account, with the rows that depend
        /// on them: schedules first, then jobs in any state, then the other kinds. Locked rows are
        /// skipped, and the next kind follows only when no row of this kind is left. Does nothing
        /// for an account that is not deleted. Of concurrent calls only one removes rows.
        async fn erase(&self, account: AccountId, now: Timestamp, limit: u32) -> Result<Erased>;
    }
}

/// The tables with rows of an account other than schedules and jobs, and the column that selects
/// the rows of a batch, in the order in which they are cleared. The versions follow after the jobs,
/// which need them.
pub(in crate::store) const CLEARED: [(&str, &str); 18] = [
    ("notification_events", "id"),
    ("delivery_tries", "delivery_id"),
    ("notification_deliveries", "id"),
    ("incident_schedules", "id"),
    ("notification_incidents", "id"),
    ("preference_channels", "schedule_id"),
    ("notification_preferences", "schedule_id"),
    ("notification_channels", "id"),
    ("schedule_versions", "id"),
    ("skips", "id"),
    ("account_months", "month"),
    ("account_hours", "slot"),
    ("api_keys", "id"),
    ("signing_secrets", "id"),
    ("memberships", "id"),
    ("invitations", "id"),
    ("idempotency_keys", "id"),
    ("audit_log", "id"),
];

/// Returns the statement that deletes some of an account's rows in one of these tables. `passing`
/// is the clause that skips locked rows. Parameters: account, number of rows.
pub(in crate::store) fn clear((table, key): (&str, &str), passing: &str) -> String {
    format!(
        "DELETE FROM {table} WHERE account_id = $1 AND {key} IN
             (SELECT {key} FROM {table} WHERE account_id = $1 LIMIT $2 {passing})"
    )
}

/// Returns the condition beside that on the account with which PostgreSQL uses the table's index by
/// account. That of `runs` is partial.
pub(in crate::store) fn indexed(table: &str) -> &'static str {
    if table == "runs" { "AND status < 2" } else { "" }
}

/// Returns the statement that reads `true` if an account has rows in a table. Parameter: account.
pub(in crate::store) fn has_rows(table: &str) -> String {
    format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE account_id = $1 {})", indexed(table))
}

/// Returns the statement that counts an account's rows in all tables, up to a maximum in each.
/// Parameters: account, maximum.
pub(in crate::store) fn count_rows() -> String {
    let tables = ["schedules", "runs", "jobs"].into_iter().chain(CLEARED.map(|(table, _)| table));
    let count = |table| {
        format!(
            "(SELECT count(*) FROM
                 (SELECT 1 FROM {table} WHERE account_id = $1 {} LIMIT $2) AS {table}_left)",
            indexed(table)
        )
    };
    let counts: Vec<String> = tables.map(count).collect();
    format!("SELECT {}", counts.join(" + "))
}

/// Reads the versions of an account. Parameters: account, version before the page, number of rows.
pub(in crate::store) const VERSIONS: &str = "
    SELECT id, schedule_id, cron_expression, timezone, endpoint, http_method, body, headers,
           max_retries, timeout_seconds, expected_status_codes, sign_requests, created_at, retired_at
    FROM schedule_versions WHERE account_id = $1 AND id > $2 ORDER BY id LIMIT $3";
/// Reads the skips of an account. Parameters: account, first tick and number of the skip before the
/// page, number of rows.
pub(in crate::store) const SKIPS: &str = "
    SELECT id, schedule_id, first_tick, last_tick, count, reason FROM skips
    WHERE account_id = $1 AND (first_tick, id) > ($2, $3) ORDER BY first_tick, id LIMIT $4";
/// Reads the counters of an account. Negative months hold the values from before a change of its
/// plan. Parameter: account.
pub(in crate::store) const MONTHS: &str = "
    SELECT month, reserved, exhausted_at FROM account_months
    WHERE account_id = $1 AND month > 0 ORDER BY month";
/// The place before all skips.
pub(in crate::store) const FIRST_SKIP: SkipPlace = (Timestamp::from_millis(i64::MIN), i64::MIN);
/// The id before all versions.
pub(in crate::store) const FIRST_VERSION: VersionId = VersionId::from_bytes([0; 16]);

/// Records that no rows of an account are left. Parameters: account, present instant.
pub(in crate::store) const GONE: &str =
    "UPDATE deleted_accounts SET gone_at = $2 WHERE id = $1 AND gone_at IS NULL";
/// Reads deleted accounts that may have rows left. Parameters: deletion time and id of the account
/// before the page, number of rows.
pub(in crate::store) const GOING_ACCOUNTS: &str = "
    SELECT * FROM deleted_accounts WHERE gone_at IS NULL AND (deleted_at, id) > ($1, $2)
    ORDER BY deleted_at, id LIMIT $3";
/// The place before all deleted accounts.
pub(in crate::store) const FIRST_DELETED: DeletedPlace =
    (Timestamp::from_millis(i64::MIN), AccountId::from_bytes([0; 16]));
/// Reads the ids of the deleted accounts that may have rows left.
pub(in crate::store) const GOING: &str = "SELECT id FROM deleted_accounts WHERE gone_at IS NULL";
/// Reads when an account was deleted, if it may have rows left. Parameter: account.
pub(in crate::store) const DELETED_AT: &str =
    "SELECT deleted_at FROM deleted_accounts WHERE id = $1 AND gone_at IS NULL";
/// Deletes the row of an account and returns its name. Parameter: account.
pub(in crate::store) const DELETE: &str = "DELETE FROM accounts WHERE id = $1 RETURNING name";
/// Records a deletion. Parameters: account, name, instant, actor, origin.
pub(in crate::store) const NOTE: &str = "
    INSERT INTO deleted_accounts (id, name, deleted_at, actor, origin)
    VALUES ($1, $2, $3, $4, $5)";
/// Reads all deleted accounts, oldest deletion first.
pub(in crate::store) const DELETED: &str = "SELECT * FROM deleted_accounts ORDER BY deleted_at, id";
