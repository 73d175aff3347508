//! What accounts have, whole: to be exported, and to be removed with them.
//!
//! Deleting moves the account's row out of `accounts`. From then on no key opens it, no user reaches
//! it, nothing of it is shown to whom a replica still takes for its caller, nothing of it fires, and
//! none of its jobs is claimed. What it had is removed by rounds of
//! [`LifeStore::erase`], each whole or absent, so that it does not matter where one was cut off.

use std::time::Duration;

use crate::domain::schedule::{Definition, Skip, UnreadableFields};
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, ScheduleId, Timestamp, VersionId};
use crate::runtime::measured;
use crate::store::{Result, WriteContext};

/// How long after its deletion an account may be found gone, at the earliest: calls that were under
/// way then may still have written.
pub const SETTLED: Duration = Duration::from_secs(300);

/// Where counting what is left of an account stops, in each of its tables.
pub(in crate::store) const ROWS_COUNTED: i64 = 1_000_000;

/// An account that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedAccount {
    /// Its id.
    pub id: AccountId,
    /// Its last name.
    pub name: String,
    /// When it was deleted.
    pub deleted_at: Timestamp,
    /// By whom: the text of an [`Actor`](crate::domain::audit::Actor).
    pub actor: String,
    /// From where: the text of an [`Origin`](crate::domain::audit::Origin).
    pub origin: String,
    /// Since when nothing is left of it.
    pub gone_at: Option<Timestamp>,
}

/// The place of a deleted account among them: the time of its deletion, and its id.
pub type DeletedPlace = (Timestamp, AccountId);

impl DeletedAccount {
    /// Its place among the deleted accounts.
    pub fn place(&self) -> DeletedPlace {
        (self.deleted_at, self.id)
    }
}

/// What a round has removed of a deleted account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// How many rows, but for those that belong to others of them.
    pub rows: u64,
    /// The schedules among them: the due index must forget them.
    pub schedules: Vec<(ShardId, ScheduleId)>,
    /// Whether nothing is left, for good.
    pub gone: bool,
}

/// A version as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredVersion {
    /// Its id.
    pub id: VersionId,
    /// Of which schedule it is, or was.
    pub schedule: ScheduleId,
    /// What it says.
    pub definition: Definition,
    /// What of it is missing.
    pub unreadable: UnreadableFields,
    /// When it was made.
    pub created_at: Timestamp,
    /// Since when no schedule uses it.
    pub retired_at: Option<Timestamp>,
}

/// Where a skip is in the order of [`LifeStore::skips_of`].
pub type SkipPlace = (Timestamp, i64);

/// A skip, whose it is, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSkip {
    /// Where the next page begins after this one.
    pub place: SkipPlace,
    /// Of which schedule it is, or was.
    pub schedule: ScheduleId,
    /// The skip.
    pub skip: Skip,
}

/// How many jobs an account has used up of a month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMonth {
    /// Its number (UTC): `year * 100 + month`.
    pub month: i64,
    /// How many jobs were reserved.
    pub reserved: u64,
    /// When they were found used up.
    pub exhausted_at: Option<Timestamp>,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// What accounts have, whole, and their end.
    pub trait LifeStore: Send + Sync {
        /// The versions of an account's schedules, deleted ones too, by id; those after `after`.
        async fn versions(
            &self,
            account: AccountId,
            after: Option<VersionId>,
            limit: u32,
        ) -> Result<Vec<StoredVersion>>;

        /// The skips of an account's schedules, deleted ones too, oldest first; those after `after`.
        async fn skips_of(
            &self,
            account: AccountId,
            after: Option<SkipPlace>,
            limit: u32,
        ) -> Result<Vec<StoredSkip>>;

        /// The months of an account of which the jobs were counted, in order.
        async fn months(&self, account: AccountId) -> Result<Vec<StoredMonth>>;

        /// Deletes the account that `write` is for; its name is free again. `false` if there is no such
        /// account. That it was deleted, when and by whom is kept: see [`Self::deleted_accounts`], and the
        /// log of the [`INSTALLATION`](crate::store::INSTALLATION), as long as that is kept.
        async fn delete_account(&self, write: &WriteContext) -> Result<bool>;

        /// The accounts that were deleted, oldest deletion first.
        async fn deleted_accounts(&self) -> Result<Vec<DeletedAccount>>;

        /// Those of them that are not gone yet, oldest deletion first, beginning after the place
        /// `after`; at most `limit`.
        async fn going_accounts(
            &self,
            after: Option<DeletedPlace>,
            limit: u32,
        ) -> Result<Vec<DeletedAccount>>;

        /// How many rows a deleted account still has, counted to a million in each table.
        async fn rows_left(&self, account: AccountId) -> Result<u64>;

        /// Removes rows of one kind of a deleted account, at most `limit` and what belongs to them;
        /// schedules first, then jobs, whatever state they are in. What somebody holds is passed over, and
        /// no other kind follows before it is gone.
        /// Nothing happens to an account that is not deleted. Of several callers at once one removes.
        async fn erase(&self, account: AccountId, now: Timestamp, limit: u32) -> Result<Erased>;
    }
}

/// The tables that an account has rows in beside schedules and jobs, with the column that tells them
/// apart, in the order in which they are cleared: versions are needed by jobs.
pub(in crate::store) const CLEARED: [(&str, &str); 17] = [
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
    ("api_keys", "id"),
    ("signing_secrets", "id"),
    ("memberships", "id"),
    ("invitations", "id"),
    ("idempotency_keys", "id"),
    ("audit_log", "id"),
];

/// Removes some rows of one of these tables that an account has; `passing` says what to do with
/// those that somebody holds. Account, number of rows.
pub(in crate::store) fn clear((table, key): (&str, &str), passing: &str) -> String {
    format!(
        "DELETE FROM {table} WHERE account_id = $1 AND {key} IN
             (SELECT {key} FROM {table} WHERE account_id = $1 LIMIT $2 {passing})"
    )
}

/// Whether an account has rows in a table. Account.
pub(in crate::store) fn has_rows(table: &str) -> String {
    format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE account_id = $1)")
}

/// Counts what an account has, in each table up to a number. Account, number.
pub(in crate::store) fn count_rows() -> String {
    let tables = ["schedules", "runs", "jobs"].into_iter().chain(CLEARED.map(|(table, _)| table));
    let count = |table| {
        format!(
            "(SELECT count(*) FROM
                 (SELECT 1 FROM {table} WHERE account_id = $1 LIMIT $2) AS {table}_left)"
        )
    };
    let counts: Vec<String> = tables.map(count).collect();
    format!("SELECT {}", counts.join(" + "))
}

/// Account, version, number of rows.
pub(in crate::store) const VERSIONS: &str = "
    SELECT id, schedule_id, cron_expression, timezone, endpoint, http_method, body, headers,
           max_retries, timeout_seconds, expected_status_codes, sign_requests, created_at, retired_at
    FROM schedule_versions WHERE account_id = $1 AND id > $2 ORDER BY id LIMIT $3";
/// Account, first tick and number of a skip, number of rows.
pub(in crate::store) const SKIPS: &str = "
    SELECT id, schedule_id, first_tick, last_tick, count, reason FROM skips
    WHERE account_id = $1 AND (first_tick, id) > ($2, $3) ORDER BY first_tick, id LIMIT $4";
/// Account.
pub(in crate::store) const MONTHS: &str = "
    SELECT month, reserved, exhausted_at FROM account_months
    WHERE account_id = $1 AND month > 0 ORDER BY month";
/// Before all skips.
pub(in crate::store) const FIRST_SKIP: SkipPlace = (Timestamp::from_millis(i64::MIN), i64::MIN);
/// Before all versions.
pub(in crate::store) const FIRST_VERSION: VersionId = VersionId::from_bytes([0; 16]);

/// Account, present instant.
pub(in crate::store) const GONE: &str =
    "UPDATE deleted_accounts SET gone_at = $2 WHERE id = $1 AND gone_at IS NULL";
/// After which account, number of rows.
pub(in crate::store) const GOING_ACCOUNTS: &str = "
    SELECT * FROM deleted_accounts WHERE gone_at IS NULL AND (deleted_at, id) > ($1, $2)
    ORDER BY deleted_at, id LIMIT $3";
/// Before all deleted accounts.
pub(in crate::store) const FIRST_DELETED: DeletedPlace =
    (Timestamp::from_millis(i64::MIN), AccountId::from_bytes([0; 16]));
/// The accounts that are not gone yet.
pub(in crate::store) const GOING: &str = "SELECT id FROM deleted_accounts WHERE gone_at IS NULL";
/// Account.
pub(in crate::store) const DELETED_AT: &str =
    "SELECT deleted_at FROM deleted_accounts WHERE id = $1 AND gone_at IS NULL";
/// Account.
pub(in crate::store) const DELETE: &str = "DELETE FROM accounts WHERE id = $1 RETURNING name";
/// Account, name, instant, actor, origin.
pub(in crate::store) const NOTE: &str = "
    INSERT INTO deleted_accounts (id, name, deleted_at, actor, origin)
    VALUES ($1, $2, $3, $4, $5)";
pub(in crate::store) const DELETED: &str = "SELECT * FROM deleted_accounts ORDER BY deleted_at, id";
