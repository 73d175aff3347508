//! Accounts and their keys.

use chrono::{Datelike, TimeZone, Utc};

#[cfg(doc)]
use crate::domain::key::MAX_KEYS;
use crate::domain::key::{KeyDigest, KeyRecord, Scope};
use crate::domain::plan::UNLIMITED;
use crate::domain::{AccountId, KeyId, Timestamp};
use crate::runtime::measured;
use crate::store::{Result, WriteContext};

/// The tenant that owns schedules, jobs and keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The id of the account.
    pub id: AccountId,
    /// The name, unique in the installation.
    pub name: String,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The name of its plan.
    pub plan: String,
    /// The time of the suspension, if the account is suspended. Then nothing of it fires and
    /// nothing can be changed.
    pub suspended_at: Option<Timestamp>,
}

impl Account {
    /// Returns a new account on the plan without limits.
    pub fn new(id: AccountId, name: impl Into<String>, created_at: Timestamp) -> Self {
        let plan = UNLIMITED.to_owned();
        Self { id, name: name.into(), created_at, plan, suspended_at: None }
    }
}

/// An API key to be stored.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// The id, which is part of the key's text.
    pub id: KeyId,
    /// The name that its owner gave it.
    pub name: String,
    /// The scope of what the key may do.
    pub scope: Scope,
    /// The hash of the whole key.
    pub digest: KeyDigest,
    /// The time from which the key is refused.
    pub expires_at: Option<Timestamp>,
}

impl std::fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyDigest")
    }
}

/// The result of storing a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyCreated {
    /// The key was stored.
    Done,
    /// The account already has [`MAX_KEYS`] keys that work.
    TooMany,
    /// The account does not exist.
    NoSuchAccount,
}

/// A new key that replaces another one. It gets the name, the scope and the lifetime that the old
/// key was created with.
#[derive(Clone, Copy, Debug)]
pub struct KeyRotation {
    /// The key to be replaced.
    pub old: KeyId,
    /// The time from which the old key is refused, unless it expires earlier.
    pub old_expires_at: Timestamp,
    /// The id of the new key.
    pub new: KeyId,
    /// The hash of the whole new key.
    pub digest: KeyDigest,
}

impl KeyRotation {
    /// Returns the number of working keys that the rotation ends at once: 0 or 1.
    pub(in crate::store) fn ended_by(&self, now: Timestamp) -> u64 {
        u64::from(self.old_expires_at <= now)
    }

    /// Returns the object of the entry in the audit log: the old key and the new one.
    pub(in crate::store) fn objects(&self) -> String {
        format!("{} {}", self.old, self.new)
    }
}

/// The result of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotationResult {
    /// The new key works, and the old one works until it expires.
    Done,
    /// The account has no such key that works.
    NotFound,
    /// The account already has [`MAX_KEYS`] keys that work.
    TooMany,
}

/// A use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// The account of the key.
    pub account: AccountId,
    /// The key.
    pub key: KeyId,
    /// The time of the use.
    pub at: Timestamp,
}

/// The data of a key that authentication needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownKey {
    /// The account that the key gives access to.
    pub account: AccountId,
    /// The name of the account's plan.
    pub plan: String,
    /// The hash to compare the presented key with.
    pub digest: KeyDigest,
    /// The scope of what the key may do.
    pub scope: Scope,
    /// The time from which the key is refused.
    pub expires_at: Option<Timestamp>,
    /// The time at which the key was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// The numbers of an account's objects that plans limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountUsage {
    /// The number of schedules, enabled or not.
    pub schedules: u64,
    /// The number of keys that are neither revoked nor expired.
    pub keys: u64,
    /// The number of notification channels.
    pub channels: u64,
    /// The number of jobs reserved in the calendar month (UTC) of the call; absent if the month has
    /// no counter, as under a plan without a quota.
    pub jobs_reserved: Option<u64>,
    /// The time at which the month's quota was found used up; absent if it was not, or if jobs have
    /// become available since.
    pub quota_exhausted_at: Option<Timestamp>,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Accounts and their keys.
    pub trait AccountStore: Send + Sync {
        /// Creates the account that `write` is for. Returns `false` if the name is taken.
        async fn create_account(&self, write: &WriteContext, name: &str, plan: &str) -> Result<bool>;

        /// Returns all accounts, sorted by name.
        async fn accounts(&self) -> Result<Vec<Account>>;

        /// Returns one account.
        async fn account(&self, id: AccountId) -> Result<Option<Account>>;

        /// Returns the usage of an account at `now`.
        async fn usage(&self, id: AccountId, now: Timestamp) -> Result<AccountUsage>;

        /// Counts the jobs of an account in the calendar month (UTC) of `now`: those that ended
        /// since its start, by hours, and those that were made since and have not ended. Of the
        /// jobs that ended before the store had hours, at most a million count.
        async fn jobs_made(&self, id: AccountId, now: Timestamp) -> Result<u64>;

        /// Sets the plan of an account. Returns `false` if there is no such account. After a
        /// change, the jobs of the month are counted again by `QuotaStore::begin_months`.
        ///
        /// When this returns, no leader fires anything that it read before the change. If the call
        /// fails or the process dies, repeat it to be sure of that. A repeated call has no other
        /// effect.
        async fn set_plan(&self, write: &WriteContext, plan: &str) -> Result<bool>;

        /// Suspends or resumes an account. Ticks up to the time of a resume do not fire any more.
        /// Returns `false` if there is no such account.
        ///
        /// When this returns, no tick of a suspended account becomes a job, whatever a leader has
        /// read before. If the process dies meanwhile, repeat the call to be sure of that. A
        /// repeated call has no other effect.
        async fn set_suspended(&self, write: &WriteContext, suspended: bool) -> Result<bool>;

        /// Returns the names of plans that accounts have and that are not in `known`, sorted, at
        /// most 20.
        async fn plans_beside(&self, known: &[String]) -> Result<Vec<String>>;

        /// Stores a key of the account, unless it already has [`MAX_KEYS`] that work. Concurrent
        /// calls never exceed that number.
        async fn create_key(&self, write: &WriteContext, key: &NewKey) -> Result<KeyCreated>;

        /// Returns the keys of an account, newest first, including revoked and expired ones.
        async fn keys(&self, account: AccountId) -> Result<Vec<KeyRecord>>;

        /// Creates a key that replaces one that works. The old key works until it expires.
        async fn rotate_key(&self, write: &WriteContext, rotation: &KeyRotation) -> Result<RotationResult>;

        /// Revokes a key permanently. Returns `false` if the account has no such key. A repeated
        /// call has no effect.
        async fn revoke_key(&self, write: &WriteContext, id: KeyId) -> Result<bool>;

        /// Returns a key by its id. Authentication uses this before the account is known.
        async fn key(&self, id: KeyId) -> Result<Option<KnownKey>>;

        /// Records the last uses of keys of any accounts; each key occurs once in the batch. A use
        /// that is not later than the recorded one changes nothing.
        async fn note_key_uses(&self, uses: &[KeyUse]) -> Result<()>;
    }
}

/// The maximum to which jobs are counted that ended before the store had hours.
pub(in crate::store) const JOBS_BEFORE_HOURS_COUNTED: i64 = 1_000_000;

/// Returns the first instant of the calendar month (UTC) of `now`.
pub(in crate::store) fn start_of_month(now: Timestamp) -> Timestamp {
    let now = now.to_utc();
    Utc.with_ymd_and_hms(now.year(), now.month(), 1, 0, 0, 0).single().unwrap_or(now).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_starts_at_its_first_instant() {
        let at = |text: &str| text.parse::<Timestamp>().expect("an instant");
        for (now, start) in [
            ("2024-02-29T23:59:59.999Z", "2024-02-01T00:00:00Z"),
            ("2024-03-01T00:00:00Z", "2024-03-01T00:00:00Z"),
        ] {
            assert_eq!(start_of_month(at(now)), at(start));
        }
    }
}
