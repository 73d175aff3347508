//! What operators do with accounts and keys.

use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache;

use super::passwords::{HashCost, HashError, Passwords};
use crate::domain::audit::Author;
use crate::domain::key::{ApiKey, KeyRecord, MOST_KEYS, Scope};
use crate::domain::plan::{Plan, Plans, month_of};
use crate::domain::user::EmailAddress;
use crate::domain::{AccountId, AuditId, KeyId, Timestamp};
use crate::runtime::{Clock, Random};
use crate::store::{
    Account, Act, AuditPage, AuditQuery, DeletedAccount, KeyCreated, NewKey, Rotated, Rotation,
    SharedStore, StoreError, Usage, Write,
};

/// The longest name of an account or a key, in characters.
const LONGEST_NAME: usize = 100;
/// Of how many accounts it is remembered how many jobs they have made.
const COUNTED: usize = 1_000;
/// For how long.
const COUNTED_FOR: Duration = Duration::from_secs(5);

/// Why an operator's command has changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The name cannot be used.
    #[error("the name {0:?} cannot be used: take 1 to 100 characters that can be printed")]
    UnusableName(String),
    /// There is an account of this name.
    #[error("there is an account named {0:?} already: choose another name")]
    NameTaken(String),
    /// There is no account of this name.
    #[error("there is no account named {0:?}: `punctual account list` shows all")]
    NoSuchAccount(String),
    /// The configuration has no plan of this name.
    #[error(
        "there is no plan named {0:?}: plans are tables [plans.NAME] of the configuration file"
    )]
    NoSuchPlan(String),
    /// The account has as many keys as there may be.
    #[error("the account {0:?} has {MOST_KEYS} keys that work already: revoke one first")]
    TooManyKeys(String),
    /// What was to be exported could not be written.
    #[error("cannot write the export: {0}")]
    Unwritten(std::io::Error),
    /// There is no key with this id.
    #[error("there is no key {0}: `punctual key list` shows the keys of an account")]
    NoSuchKey(KeyId),
    /// The key works no longer, so that nothing can take its place.
    #[error("the key {0} works no longer: make a new one with `punctual key create`")]
    KeyIsOver(KeyId),
    /// There is a user with this address.
    #[error("there is a user {0} already: `punctual user list` shows all")]
    EmailTaken(EmailAddress),
    /// There is no user with this address.
    #[error("there is no user {0}: `punctual user list` shows all")]
    NoSuchUser(EmailAddress),
    /// The user does not belong to the account.
    #[error("{0} does not belong to {1:?}: `punctual account members` shows who does")]
    NoSuchMember(EmailAddress, String),
    /// The account would have no owner.
    #[error("{0:?} would have no owner: make somebody else one first")]
    LastOwner(String),
    /// A password was not hashed.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A key to be made.
#[derive(Clone, Debug)]
pub struct KeyRequest {
    /// What its owner calls it.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// How long it works; for ever if absent.
    pub expires_in: Option<Duration>,
}

/// An account and what it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// The account.
    pub account: Account,
    /// What it is allowed.
    pub plan: Arc<Plan>,
    /// What it uses now.
    pub usage: Usage,
    /// How many jobs count in this month: those that were reserved, where the plan limits them;
    /// else those that were made, as they were counted a few seconds ago at most.
    pub jobs_this_month: u64,
}

impl Overview {
    /// When the jobs of this month were used up, if there are none left now.
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
    /// When the jobs of an account's month were last counted, and how many there were.
    counted: Arc<Cache<AccountId, (Timestamp, u64)>>,
}

impl Accounts {
    /// Over `store`; accounts can have these `plans`.
    pub fn new(store: SharedStore, clock: Clock, random: Random, plans: Arc<Plans>) -> Self {
        let passwords = Passwords::new(random.clone(), HashCost::default());
        let counted = Arc::new(Cache::new(COUNTED));
        Self { store, clock, random, passwords, plans, counted }
    }

    /// The time by which everything is noted.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Makes an account.
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

    /// All accounts, by name.
    pub async fn list(&self) -> Result<Vec<Account>, AccountError> {
        Ok(self.store.accounts().await?)
    }

    /// The account of this name.
    pub async fn named(&self, name: &str) -> Result<Account, AccountError> {
        let accounts = self.store.accounts().await?;
        let found = accounts.into_iter().find(|account| account.name == name);
        found.ok_or_else(|| AccountError::NoSuchAccount(name.to_owned()))
    }

    /// An account and what it uses; `None` if there is no such account.
    pub async fn overview(&self, id: AccountId) -> Result<Option<Overview>, AccountError> {
        let Some(account) = self.store.account(id).await? else { return Ok(None) };
        let usage = self.store.usage(id, self.clock.now()).await?;
        let plan = self.plans.of(&account.plan);
        let reserved = usage.jobs_reserved.filter(|_| plan.jobs_per_month.is_some());
        let jobs_this_month = match reserved {
            Some(reserved) => reserved,
            None => self.jobs_made(id).await?,
        };
        Ok(Some(Overview { account, plan, usage, jobs_this_month }))
    }

    /// Counting a busy account's jobs costs the store much, and anybody with a key may ask.
    async fn jobs_made(&self, id: AccountId) -> Result<u64, AccountError> {
        let now = self.clock.now();
        let fresh = |at: Timestamp| month_of(at) == month_of(now) && now.since(at) < COUNTED_FOR;
        if let Some((_, made)) = self.counted.get(&id).filter(|(at, _)| fresh(*at)) {
            return Ok(made);
        }
        let made = self.store.jobs_made(id, now).await?;
        self.counted.insert(id, (now, made));
        Ok(made)
    }

    /// Puts an account on another plan. What it has beyond that stays.
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

    /// Suspends an account, or lets it go on.
    pub async fn set_suspended(
        &self,
        author: Author,
        account: &Account,
        suspended: bool,
    ) -> Result<(), AccountError> {
        let write = self.write(account.id, author, self.clock.now());
        found(account, self.store.set_suspended(&write, suspended).await?)
    }

    /// Deletes an account: at once nobody can use it, servers remove by and by what it had.
    pub async fn delete(&self, author: Author, account: &Account) -> Result<(), AccountError> {
        let write = self.write(account.id, author, self.clock.now());
        found(account, self.store.delete_account(&write).await?)
    }

    /// The accounts that were deleted, oldest deletion first.
    pub async fn deleted(&self) -> Result<Vec<DeletedAccount>, AccountError> {
        Ok(self.store.deleted_accounts().await?)
    }

    /// How many rows a deleted account still has.
    pub async fn rows_left(&self, account: &Account) -> Result<u64, AccountError> {
        Ok(self.store.rows_left(account.id).await?)
    }

    fn checked_plan(&self, name: &str) -> Result<String, AccountError> {
        let known = self.plans.named(name);
        known.map(|plan| plan.name.clone()).ok_or_else(|| AccountError::NoSuchPlan(name.to_owned()))
    }

    /// Makes a key of an account. The key is in the answer and nowhere else: only its hash is
    /// kept.
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

    /// The keys of an account, newest first.
    pub async fn keys(&self, account: &Account) -> Result<Vec<KeyRecord>, AccountError> {
        Ok(self.store.keys(account.id).await?)
    }

    /// Makes a key of the same name and scope as another one, whose ever that is; both work until
    /// `overlap` is over.
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
        let rotation = Rotation { old, old_expires_at, new: new.id(), digest };
        let write = self.write(known.account, author, now);
        match self.store.rotate_key(&write, &rotation).await? {
            Rotated::Done => Ok(new),
            Rotated::NotFound => Err(AccountError::KeyIsOver(old)),
            Rotated::TooMany => Err(AccountError::TooManyKeys(self.name_of(known.account).await?)),
        }
    }

    /// Revokes a key for good, whose ever it is.
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

    /// Some of the changes of an account's data, of as long as its plan keeps them.
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

    pub(super) fn act(&self, author: Author, now: Timestamp) -> Act {
        Act { now, author, entry: AuditId::new(now, self.random.bits()) }
    }

    pub(super) fn write(&self, account: AccountId, author: Author, now: Timestamp) -> Write {
        let entry = AuditId::new(now, self.random.bits());
        Write { account, now, author, entry, once: None }
    }
}

/// Whether the account that was to be changed was there.
fn found(account: &Account, was_there: bool) -> Result<(), AccountError> {
    let gone = || AccountError::NoSuchAccount(account.name.clone());
    was_there.then_some(()).ok_or_else(gone)
}

pub(super) fn checked_name(name: &str) -> Result<String, AccountError> {
    let length = name.chars().count();
    let fits = (1..=LONGEST_NAME).contains(&length) && !name.trim().is_empty();
    if fits && !name.chars().any(char::is_control) {
        Ok(name.to_owned())
    } else {
        Err(AccountError::UnusableName(name.to_owned()))
    }
}
