//! The operator commands for accounts and keys.

use std::sync::Arc;
use std::time::Duration;

use super::passwords::{HashCost, HashError, Passwords};
use crate::domain::audit::Author;
use crate::domain::key::{ApiKey, KeyRecord, MAX_KEYS, Scope};
use crate::domain::plan::{Plan, Plans};
use crate::domain::user::EmailAddress;
use crate::domain::{AccountId, AuditId, KeyId, Timestamp};
use crate::runtime::{Clock, Random};
use crate::store::{
    Account, AccountUsage, AuditContext, AuditPage, AuditQuery, DeletedAccount, KeyCreated,
    KeyRotation, NewKey, RotationResult, SharedStore, StoreError, WriteContext,
};

/// The maximum length of the name of an account or a key, in characters.
const MAX_NAME: usize = 100;

/// The reason why an operator's command failed.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The name is invalid.
    #[error("the name {0:?} is invalid: use 1 to 100 printable characters")]
    UnusableName(String),
    /// An account with this name exists.
    #[error("an account named {0:?} already exists: choose another name")]
    NameTaken(String),
    /// No account has this name.
    #[error("there is no account named {0:?}: `punctual account list` shows all")]
    NoSuchAccount(String),
    /// The configuration has no plan with this name.
    #[error(
        "there is no plan named {0:?}: plans are tables [plans.NAME] of the configuration file"
    )]
    NoSuchPlan(String),
    /// The account has the maximum number of active keys.
    #[error("the account {0:?} already has {MAX_KEYS} keys that work: revoke one first")]
    TooManyKeys(String),
    /// The export could not be written.
    #[error("cannot write the export: {0}")]
    Unwritten(std::io::Error),
    /// No key has this id.
    #[error("there is no key {0}: `punctual key list` shows the keys of an account")]
    NoSuchKey(KeyId),
    /// The key is revoked or expired, so it cannot be rotated.
    #[error("the key {0} is revoked or expired: create a new one with `punctual key create`")]
    KeyIsOver(KeyId),
    /// A user with this address exists.
    #[error("the user {0} already exists: `punctual user list` shows all")]
    EmailTaken(EmailAddress),
    /// No user has this address.
    #[error("there is no user {0}: `punctual user list` shows all")]
    NoSuchUser(EmailAddress),
    /// The user is not a member of the account.
    #[error("{0} does not belong to {1:?}: `punctual account members` shows all members")]
    NoSuchMember(EmailAddress, String),
    /// The account would have no owner.
    #[error("{0:?} would have no owner: make another member an owner first")]
    LastOwner(String),
    /// A password could not be hashed.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A request for a new key.
#[derive(Clone, Debug)]
pub struct KeyRequest {
    /// The name of the key.
    pub name: String,
    /// The scope of the key.
    pub scope: Scope,
    /// The lifetime of the key; unlimited if absent.
    pub expires_in: Option<Duration>,
}

/// An account with its plan and its usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountOverview {
    /// The account.
    pub account: Account,
    /// The limits of the account.
    pub plan: Arc<Plan>,
    /// The current usage.
    pub usage: AccountUsage,
    /// The number of jobs in this month. If the plan limits jobs, these are the reserved jobs;
    /// otherwise they are the jobs that ended, and those that were made and have not ended.
    pub jobs_this_month: u64,
}

impl AccountOverview {
    /// Returns the time when this month's quota was used up, if no jobs are left now.
    pub fn quota_exhausted_at(&self) -> Option<Timestamp> {
        let quota = self.plan.jobs_per_month?;
        let is_used_up = self.usage.jobs_reserved.is_some_and(|reserved| reserved >= quota);
        self.usage.quota_exhausted_at.filter(|_| is_used_up)
    }
}

/// Commands and queries on accounts, their keys and their users.
#[derive(Clone)]
pub struct Accounts {
    pub(super) store: SharedStore,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) passwords: Passwords,
    plans: Arc<Plans>,
}

impl Accounts {
    /// Creates the service over `store`; accounts can have one of these `plans`.
    pub fn new(store: SharedStore, clock: Clock, random: Random, plans: Arc<Plans>) -> Self {
        let passwords = Passwords::new(random.clone(), HashCost::default());
        Self { store, clock, random, passwords, plans }
    }

    /// Returns the current time of the clock that stamps all changes.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Creates an account.
    pub async fn create(
        &self,
        author: Author,
        name: &str,
        plan: &str,
    ) -> Result<Account, AccountError> {
        let name = checked_name(name)?;
        let plan = self.checked_plan(plan)?;
        let now = self.clock.now();
        let id = AccountId::new(now, self.random.bits());
        if self.store.create_account(&self.write(id, author, now), &name, &plan).await? {
            Ok(Account { plan, ..Account::new(id, name, now) })
        } else {
            Err(AccountError::NameTaken(name))
        }
    }

    /// Returns all accounts, by name.
    pub async fn list(&self) -> Result<Vec<Account>, AccountError> {
        Ok(self.store.accounts().await?)
    }

    /// Returns the account with this name.
    pub async fn named(&self, name: &str) -> Result<Account, AccountError> {
        let accounts = self.store.accounts().await?;
        let found = accounts.into_iter().find(|account| account.name == name);
        found.ok_or_else(|| AccountError::NoSuchAccount(name.to_owned()))
    }

    /// Returns the account with this id; `None` if it does not exist.
    pub async fn by_id(&self, id: AccountId) -> Result<Option<Account>, AccountError> {
        Ok(self.store.account(id).await?)
    }

    /// Returns an account with its usage; `None` if it does not exist.
    pub async fn overview(&self, id: AccountId) -> Result<Option<AccountOverview>, AccountError> {
        let Some(account) = self.store.account(id).await? else { return Ok(None) };
        let now = self.clock.now();
        let usage = self.store.usage(id, now).await?;
        let plan = self.plans.of(&account.plan);
        let reserved = usage.jobs_reserved.filter(|_| plan.jobs_per_month.is_some());
        let jobs_this_month = match reserved {
            Some(reserved) => reserved,
            None => self.store.jobs_made(id, now).await?,
        };
        Ok(Some(AccountOverview { account, plan, usage, jobs_this_month }))
    }

    /// Moves an account to another plan. Existing data beyond the new limits stays.
    pub async fn set_plan(
        &self,
        author: Author,
        account: &Account,
        plan: &str,
    ) -> Result<(), AccountError> {
        let plan = self.checked_plan(plan)?;
        let write = self.write(account.id, author, self.clock.now());
        found(account, self.store.set_plan(&write, &plan).await?)
    }

    /// Suspends or resumes an account.
    pub async fn set_suspended(
        &self,
        author: Author,
        account: &Account,
        suspended: bool,
    ) -> Result<(), AccountError> {
        let write = self.write(account.id, author, self.clock.now());
        found(account, self.store.set_suspended(&write, suspended).await?)
    }

    /// Deletes an account. It is unusable at once; the servers remove its data gradually.
    pub async fn delete(&self, author: Author, account: &Account) -> Result<(), AccountError> {
        let write = self.write(account.id, author, self.clock.now());
        found(account, self.store.delete_account(&write).await?)
    }

    /// Returns the deleted accounts, oldest deletion first.
    pub async fn deleted(&self) -> Result<Vec<DeletedAccount>, AccountError> {
        Ok(self.store.deleted_accounts().await?)
    }

    /// Returns the number of rows that a deleted account still has.
    pub async fn rows_left(&self, account: &Account) -> Result<u64, AccountError> {
        Ok(self.store.rows_left(account.id).await?)
    }

    fn checked_plan(&self, name: &str) -> Result<String, AccountError> {
        let known = self.plans.named(name);
        known.map(|plan| plan.name.clone()).ok_or_else(|| AccountError::NoSuchPlan(name.to_owned()))
    }

    /// Creates a key of an account. Only this result contains the key: the store keeps only its
    /// hash.
    pub async fn create_key(
        &self,
        author: Author,
        account: &Account,
        request: &KeyRequest,
    ) -> Result<ApiKey, AccountError> {
        let now = self.clock.now();
        let id = KeyId::new(now, self.random.bits());
        let key = ApiKey::new(id, |bytes| self.random.fill(bytes));
        let record = NewKey {
            id,
            name: checked_name(&request.name)?,
            scope: request.scope,
            digest: key.digest(),
            expires_at: request.expires_in.map(|span| now.plus(span)),
        };
        let name = || account.name.clone();
        match self.store.create_key(&self.write(account.id, author, now), &record).await? {
            KeyCreated::Done => Ok(key),
            KeyCreated::TooMany => Err(AccountError::TooManyKeys(name())),
            KeyCreated::NoSuchAccount => Err(AccountError::NoSuchAccount(name())),
        }
    }

    /// Returns the keys of an account, newest first.
    pub async fn keys(&self, account: &Account) -> Result<Vec<KeyRecord>, AccountError> {
        Ok(self.store.keys(account.id).await?)
    }

    /// Creates a key with the same name and scope as another key, of any account. The old key
    /// expires after `overlap` at the latest.
    pub async fn rotate_key(
        &self,
        author: Author,
        old: KeyId,
        overlap: Duration,
    ) -> Result<ApiKey, AccountError> {
        let known = self.store.key(old).await?.ok_or(AccountError::NoSuchKey(old))?;
        let now = self.clock.now();
        let new = ApiKey::new(KeyId::new(now, self.random.bits()), |bytes| self.random.fill(bytes));
        let (old_expires_at, digest) = (now.plus(overlap), new.digest());
        let rotation = KeyRotation { old, old_expires_at, new: new.id(), digest };
        let write = self.write(known.account, author, now);
        match self.store.rotate_key(&write, &rotation).await? {
            RotationResult::Done => Ok(new),
            RotationResult::NotFound => Err(AccountError::KeyIsOver(old)),
            RotationResult::TooMany => {
                Err(AccountError::TooManyKeys(self.name_of(known.account).await?))
            }
        }
    }

    /// Revokes a key permanently, of any account.
    pub async fn revoke_key(&self, author: Author, id: KeyId) -> Result<(), AccountError> {
        let key = self.store.key(id).await?.ok_or(AccountError::NoSuchKey(id))?;
        let write = self.write(key.account, author, self.clock.now());
        if self.store.revoke_key(&write, id).await? {
            Ok(())
        } else {
            Err(AccountError::NoSuchKey(id))
        }
    }

    async fn name_of(&self, account: AccountId) -> Result<String, AccountError> {
        let account = self.store.account(account).await?;
        Ok(account.map(|account| account.name).unwrap_or_default())
    }

    /// Returns a page of an account's audit log, limited to the history that its plan keeps.
    pub async fn audit_log(
        &self,
        account: AccountId,
        query: &AuditQuery,
    ) -> Result<AuditPage, AccountError> {
        let mut query = query.clone();
        if self.plans.longest_history().is_some() {
            let found = self.store.account(account).await?;
            let history = found.and_then(|account| self.plans.of(&account.plan).history());
            query.from = query.from.max(history.map(|history| self.clock.now().minus(history)));
        }
        Ok(self.store.audit_log(account, &query).await?)
    }

    pub(super) fn audit_context(&self, author: Author, now: Timestamp) -> AuditContext {
        AuditContext { now, author, entry: AuditId::new(now, self.random.bits()) }
    }

    pub(super) fn write(&self, account: AccountId, author: Author, now: Timestamp) -> WriteContext {
        let entry = AuditId::new(now, self.random.bits());
        WriteContext { account, now, author, entry, idempotency: None }
    }
}

/// Returns an error if the account to change did not exist.
fn found(account: &Account, was_there: bool) -> Result<(), AccountError> {
    let gone = || AccountError::NoSuchAccount(account.name.clone());
    was_there.then_some(()).ok_or_else(gone)
}

pub(super) fn checked_name(name: &str) -> Result<String, AccountError> {
    let length = name.chars().count();
    let fits = (1..=MAX_NAME).contains(&length) && !name.trim().is_empty();
    if fits && !name.chars().any(char::is_control) {
        Ok(name.to_owned())
    } else {
        Err(AccountError::UnusableName(name.to_owned()))
    }
}
