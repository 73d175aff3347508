//! The store: the only truth. This file and its siblings are the contract; the adapters are in
//! folders of their own.
//!
//! Place in the flow: commands and stages read the store, decide in `domain`, and write the store.
//! What the queue and the cluster say is a hint; a write here decides.
//!
//! What every adapter keeps, and the conformance suite (`tests/it/conformance`) checks:
//! - Each method is one transaction: it has its whole effect or none. What it acknowledges
//!   survives the death of the process and of the machine.
//! - `now` is a parameter; no statement asks the time.
//! - A future that is dropped half-way leaves the effect whole or absent, and no connection
//!   unusable.
//! - TENANT-1: every read and write of an account's data names the account. The stages' batches
//!   (`firing`, `claims`, `alerts`) work over all accounts and are, beside noting when keys were used, the only
//!   exception.
//! - Of a deleted account nothing fires, runs or is found; what is left of it goes by and by.
//! - What users do to schedules and jobs comes wholly before or after their account is suspended or
//!   deleted, and is refused after.
//! - What may only be there so many times (schedules, keys) is counted by the transaction that adds
//!   to it, one at a time for an account: it is never exceeded. So are the jobs of a month that users
//!   ask for.
//! - LEAD-1: `fire` changes nothing unless the epoch is the shard's newest.
//! - TICK-1: a job's id is its key, and that of a tick follows from schedule and tick; making it
//!   again is a no-op.
//! - JOB-1, JOB-2: claims and commits are conditional on state, attempt number and claimer.
//!
//! Nobody waits for one bad row. A stage's batch passes over rows that somebody else holds, and
//! leaves out rows that cannot be read back: it says so in its answer, and goes on with the rest.
//!
//! On failure a method returns a [`StoreError`] that says which operation failed and of what kind
//! the failure is. After a transient one the caller cannot know whether the effect took place;
//! all methods of the stages can be called again with the same arguments, to the same end. Nothing
//! is done twice, and nothing but a claim is told twice: tickets of an answer that was lost are found
//! by `late`, and what was claimed is told to the same claim again, or found by `expired`.
//! `raise_epoch` alone raises again, and `prune` goes on. What makes something of an id that is there
//! already is `Rejected`.

mod accounts;
mod alert_claims;
mod alert_content;
mod alert_items;
mod alert_plan;
mod alert_rows;
mod alerts;
mod audit;
mod batch_rows;
mod channels;
mod claims;
mod copy;
mod damage;
mod ending;
mod error;
mod firing;
mod hex;
mod idempotency;
mod job_rows;
mod jobs;
mod leadership;
mod life;
mod months;
mod paging;
mod placing;
pub mod postgres;
mod preferences;
mod quotas;
mod response;
mod rows;
mod runs;
mod schedules;
mod seal;
mod secrets;
mod signing;
mod sql;
pub mod sqlite;
mod stored;
mod upkeep;
mod users;
mod vault;
mod version;

pub use accounts::{
    Account, AccountStore, KeyCreated, KeyUse, KnownKey, NewKey, Rotated, Rotation, Usage,
};
pub use alert_claims::{
    ClaimedDeliveries, ClaimedDelivery, DeliveryClaim, DeliveryContent, TryEnd, TryOutcome,
};
pub use alerts::{
    AlertStore, AlertWork, DELIVERIES_KEPT, Delivery, DeliveryPage, DeliveryQuery, DeliveryTry,
    Redelivered, Relayed, WAITING_COUNTED,
};
pub use audit::{AuditEntry, AuditPage, AuditQuery, AuditStore, INSTALLATION};
pub use channels::{
    ChannelChange, ChannelChanged, ChannelCreated, ChannelStore, NewChannel, StoredChannel,
    TESTS_PER_HOUR, TryAllowed,
};
pub use claims::{
    Aborts, Claim, ClaimStore, Claimed, Claims, Committed, Completion, End, ExecutorId, Fate,
    HeldClaim, LATE_OF_EACH, LATEST_EFFECT, Run, Unreadable,
};
pub use copy::{NextTicks, Page, RowKey, Table};
pub use error::{StoreError, StoreErrorKind};
pub use firing::{CHANGES_KEPT, Candidate, DueEntry, Fence, Fired, Firing, FiringStore, TickJob};
pub use idempotency::{ANSWERS_KEPT, IdempotencyStore, Receipt, Reservation, Reserved};
pub use jobs::{Cancelled, JobPage, JobQuery, JobStore, NewJob, Retried, Triggered};
pub use leadership::{Leadership, LeadershipStore, ReplicaLease, ShardLeader};
pub use life::{
    DeletedAccount, DeletedPlace, Erased, LifeStore, SETTLED, SkipPlace, StoredMonth, StoredSkip,
    StoredVersion,
};
pub use preferences::{
    AttachedChannel, NewPreference, PreferenceSet, PreferenceStore, StoredPreference,
};
pub use quotas::{Granted, Grants, QuotaStore, UsedUp, Wanted};
pub use schedules::{
    Change, Changed, Created, Expected, NewSchedule, NewVersion, SchedulePage, ScheduleQuery,
    ScheduleSort, ScheduleStore, SkipPage, SkipQuery, SortField, SortValue, TickRange,
};
pub use seal::{OpenError, Sealer};
pub use secrets::{KeyProof, Resealed, SealedTable, SecretStore};
pub use signing::{KnownSecret, NewSecret, SigningStore};
pub use upkeep::{LedBy, ShardRecord, Upkeep, UpkeepStore, Waiting};
pub use users::{
    Ending, Invitation, Joins, Member, MemberChange, MemberChanged, Membership, NewInvitation,
    NewReset, NewSession, NewUser, PasswordHash, Session, User, UserCreated, UserStore,
};

use crate::domain::audit::Author;
use crate::domain::call::Once;
use crate::domain::{AccountId, AuditId, Timestamp};

/// Declares a trait that is all of these, and that whatever is all of these has.
macro_rules! all_of {
    ($(#[$doc:meta])* $name:ident: $first:ident $(+ $part:ident)*) => {
        $(#[$doc])*
        pub trait $name: $first $(+ $part)* {}

        impl<T: $first $(+ $part)*> $name for T {}
    };
}

all_of! {
    /// What every adapter implements.
    Store: AccountStore + QuotaStore + ScheduleStore + JobStore + FiringStore + ClaimStore
        + UpkeepStore + UserStore + SecretStore + AuditStore + IdempotencyStore + SigningStore
        + LifeStore + ChannelStore + PreferenceStore + AlertStore + LeadershipStore
}

/// A store shared by all who use it.
pub type SharedStore = std::sync::Arc<dyn Store>;

/// What the contract's methods return.
pub type Result<T> = std::result::Result<T, StoreError>;

/// When and by whom something is changed, where it turns out only then whose data it is.
#[derive(Clone, Copy, Debug)]
pub struct Act {
    /// The present instant.
    pub now: Timestamp,
    /// Who makes the change, and from where.
    pub author: Author,
    /// The id of its entry in the audit log, made at `now`.
    pub entry: AuditId,
}

impl Act {
    /// A change of this account's data.
    pub(in crate::store) fn on(self, account: AccountId) -> Write {
        let Self { now, author, entry } = self;
        Write { account, now, author, entry, once: None }
    }
}

/// For whom, when and by whom an account's data is changed. A change that takes effect writes it
/// into the audit log, in the same transaction; one that changes nothing writes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// Whose data it is.
    pub account: AccountId,
    /// The present instant.
    pub now: Timestamp,
    /// Who makes the change, and from where.
    pub author: Author,
    /// The id of its entry in the audit log, made at `now`; a change of several objects has an
    /// entry for each, of the ids that follow.
    pub entry: AuditId,
    /// The reservation that the call takes effect under, if it carries an idempotency key. Such a
    /// call makes one change.
    pub once: Option<Once>,
}
