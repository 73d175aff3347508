//! The end of accounts: at once unusable, cleared in small batches.
//!
//! Deleting moves the account's row out of `accounts`. From then on no key opens it, no user reaches
//! it, nothing of it fires, and none of its jobs is claimed. What it had is removed by rounds of
//! [`LifeStore::erase`], each whole or absent, so that it does not matter where one was cut off.

use std::time::Duration;

use async_trait::async_trait;

use super::{Result, Write};
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, ScheduleId, Timestamp};

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

/// The end of accounts.
#[async_trait]
pub trait LifeStore: Send + Sync {
    /// Deletes the account that `write` is for; its name is free again. `false` if there is no such
    /// account. That it was deleted, when and by whom is kept: see [`Self::deleted_accounts`].
    async fn delete_account(&self, write: &Write) -> Result<bool>;

    /// The accounts that were deleted, oldest deletion first.
    async fn deleted_accounts(&self) -> Result<Vec<DeletedAccount>>;

    /// How many rows a deleted account still has, counted to a million in each table.
    async fn rows_left(&self, account: AccountId) -> Result<u64>;

    /// Removes rows of one kind of a deleted account, at most `limit` and what belongs to them;
    /// schedules first, then jobs, whatever state they are in. What somebody holds is passed over.
    /// Nothing happens to an account that is not deleted. Of several callers at once one removes.
    async fn erase(&self, account: AccountId, now: Timestamp, limit: u32) -> Result<Erased>;
}

/// The tables that an account has rows in beside schedules and jobs, and a column that tells the
/// account's rows apart. In the order in which they are cleared: versions are needed by jobs.
pub(in crate::store) const CLEARED: [(&str, &str); 8] = [
    ("schedule_versions", "id"),
    ("skips", "id"),
    ("account_months", "month"),
    ("api_keys", "id"),
    ("memberships", "id"),
    ("invitations", "id"),
    ("idempotency_keys", "id"),
    ("audit_log", "id"),
];

/// Removes some rows of one of [`CLEARED`]. Account, number of rows.
pub(in crate::store) fn clear((table, key): (&str, &str)) -> String {
    format!(
        "DELETE FROM {table} WHERE account_id = $1 AND {key} IN
             (SELECT {key} FROM {table} WHERE account_id = $1 LIMIT $2)"
    )
}

/// Counts what an account has, in each table up to a number. Account, number.
pub(in crate::store) fn count_rows() -> String {
    let tables = ["schedules", "jobs"].into_iter().chain(CLEARED.map(|(table, _)| table));
    let count = |table| {
        format!(
            "(SELECT count(*) FROM
                 (SELECT 1 FROM {table} WHERE account_id = $1 LIMIT $2) AS {table}_left)"
        )
    };
    let counts: Vec<String> = tables.map(count).collect();
    format!("SELECT {}", counts.join(" + "))
}

/// Account, present instant.
pub(in crate::store) const GONE: &str =
    "UPDATE deleted_accounts SET gone_at = $2 WHERE id = $1 AND gone_at IS NULL";
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
