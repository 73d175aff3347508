//! Accounts and their keys.

use chrono::{Datelike, TimeZone, Utc};

use super::{Result, Write};
#[cfg(doc)]
use crate::domain::key::MOST_KEYS;
use crate::domain::key::{KeyDigest, KeyRecord, Scope};
use crate::domain::plan::UNLIMITED;
use crate::domain::{AccountId, KeyId, Timestamp};
use crate::runtime::measured;

/// The owner of schedules, jobs and keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its id.
    pub id: AccountId,
    /// Unique over the installation.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// The name of its plan.
    pub plan: String,
    /// Since when nothing of it fires and nothing can be changed.
    pub suspended_at: Option<Timestamp>,
}

impl Account {
    /// A new account without limits.
    pub fn new(id: AccountId, name: impl Into<String>, created_at: Timestamp) -> Self {
        let plan = UNLIMITED.to_owned();
        Self { id, name: name.into(), created_at, plan, suspended_at: None }
    }
}

/// A key to be stored.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Its id, as the key's text contains it.
    pub id: KeyId,
    /// What its owner calls it.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// The hash of the whole key.
    pub digest: KeyDigest,
    /// From when on it is refused.
    pub expires_at: Option<Timestamp>,
}

impl std::fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyDigest")
    }
}

/// What became of a key to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyCreated {
    /// It is there.
    Done,
    /// The account has [`MOST_KEYS`] that work.
    TooMany,
    /// There is no such account.
    NoSuchAccount,
}

/// A key to be stored in the place of another one, with its name and scope, and as much time to
/// live as that one was made with.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// The key that it replaces.
    pub old: KeyId,
    /// From when on that one is refused, unless it expires before.
    pub old_expires_at: Timestamp,
    /// The id of the new key.
    pub new: KeyId,
    /// The hash of the whole new key.
    pub digest: KeyDigest,
}

impl Rotation {
    /// How many keys, of those that work, it ends at once.
    pub(in crate::store) fn ended_by(&self, now: Timestamp) -> u64 {
        u64::from(self.old_expires_at <= now)
    }

    /// What the audit log says of it: the old key and the new one.
    pub(in crate::store) fn objects(&self) -> String {
        format!("{} {}", self.old, self.new)
    }
}

/// What became of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotated {
    /// Both keys work.
    Done,
    /// The account has no such key that works.
    NotFound,
    /// The account has [`MOST_KEYS`] that work.
    TooMany,
}

/// That a key was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// Whose it is.
    pub account: AccountId,
    /// Which.
    pub key: KeyId,
    /// When.
    pub at: Timestamp,
}

/// What authentication needs to know of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownKey {
    /// The account it opens.
    pub account: AccountId,
    /// The name of the account's plan.
    pub plan: String,
    /// The hash to compare with.
    pub digest: KeyDigest,
    /// What it may do.
    pub scope: Scope,
    /// From when on it is refused.
    pub expires_at: Option<Timestamp>,
    /// Since when it is refused.
    pub revoked_at: Option<Timestamp>,
}

/// How much an account has of what plans limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Schedules, enabled or not.
    pub schedules: u64,
    /// Keys that work: neither revoked nor expired.
    pub keys: u64,
    /// Notification channels.
    pub channels: u64,
    /// Jobs reserved in the calendar month (UTC) of the call, if its plan has limited them.
    pub jobs_reserved: Option<u64>,
    /// When the month's quota was found used up, if there has not been more again.
    pub quota_exhausted_at: Option<Timestamp>,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Accounts and their keys.
    pub trait AccountStore: Send + Sync {
        /// Makes the account that `write` is for, of this name and on this plan; `false` if the
        /// name is taken.
        async fn create_account(&self, write: &Write, name: &str, plan: &str) -> Result<bool>;

        /// All accounts, by name.
        async fn accounts(&self) -> Result<Vec<Account>>;

        /// One account.
        async fn account(&self, id: AccountId) -> Result<Option<Account>>;

        /// What it uses at `now`.
        async fn usage(&self, id: AccountId, now: Timestamp) -> Result<Usage>;

        /// How many jobs it has made since the start of the calendar month (UTC) of `now`, counted to
        /// one million: takes a while for one with so many.
        async fn jobs_made(&self, id: AccountId, now: Timestamp) -> Result<u64>;

        /// Puts an account on a plan; `false` if there is no such account. The jobs of the month are
        /// counted anew then, by `QuotaStore::begin_months`. Once this has answered nothing fires that a
        /// leader has read before; if it fails, or the process dies meanwhile, calling it again sees to
        /// that. Again: no other effect.
        async fn set_plan(&self, write: &Write, plan: &str) -> Result<bool>;

        /// Suspends an account, or lets it go on: ticks up to then do not fire any more. Once this has
        /// answered no tick of a suspended account becomes a job, whatever a leader has read before; if the
        /// process dies meanwhile, calling it again sees to that. `false` if there is no such account.
        /// Again: no other effect.
        async fn set_suspended(&self, write: &Write, suspended: bool) -> Result<bool>;

        /// The names of plans that accounts have and that are not among `known`, in their order; some
        /// twenty at most.
        async fn plans_beside(&self, known: &[String]) -> Result<Vec<String>>;

        /// Stores a key of the account, unless it has [`MOST_KEYS`] that work: however many are made
        /// at once, there are never more.
        async fn create_key(&self, write: &Write, key: &NewKey) -> Result<KeyCreated>;

        /// The account's keys, newest first, revoked and expired ones too.
        async fn keys(&self, account: AccountId) -> Result<Vec<KeyRecord>>;

        /// Lets a new key take the place of one that works; until then both do.
        async fn rotate_key(&self, write: &Write, rotation: &Rotation) -> Result<Rotated>;

        /// Revokes a key for good; `false` if the account has no such key. Again: no effect.
        async fn revoke_key(&self, write: &Write, id: KeyId) -> Result<bool>;

        /// A key by its id, before it is known whose it is: what authentication reads.
        async fn key(&self, id: KeyId) -> Result<Option<KnownKey>>;

        /// Notes when keys were used last, each once in the batch, of all accounts. What is not later
        /// than what was noted before changes nothing.
        async fn note_key_uses(&self, uses: &[KeyUse]) -> Result<()>;
    }
}

/// Where counting an account's jobs stops.
pub(in crate::store) const JOBS_COUNTED: i64 = 1_000_000;

/// From when on the jobs of the month of `now` are counted.
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
