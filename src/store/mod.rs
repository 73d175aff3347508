//! The store: the only truth. `contract` is its contract; the adapters are in folders of their own.
//!
//! Place in the flow: commands and stages read the store, decide in `domain`, and write the store.
//! The answers of the queue and the cluster are hints; a write here decides.
//!
//! Every adapter keeps these rules, and the conformance suite (`tests/it/conformance`) checks them:
//! - Each method is one transaction: it has its whole effect or none. An acknowledged effect
//!   survives the death of the process and of the machine.
//! - `now` is a parameter; no statement asks for the time.
//! - A future that is dropped half-way leaves the effect complete or absent, and no connection
//!   unusable.
//! - TENANT-1: every read and write of an account's data names the account. The only exceptions are
//!   the batches of the stages (`firing`, `claims`, `alerts`), which span all accounts, and the
//!   recording of the last use of keys.
//! - Nothing of a deleted account fires, runs or is found. Its remaining rows are deleted in the
//!   background.
//! - A user's change of schedules or jobs happens completely before the account is suspended or
//!   deleted, or completely after it. After it, it is refused.
//! - Limited objects (schedules, keys) are counted by the transaction that adds them, one at a time
//!   per account, so the limit is never exceeded. The same is true of the month's jobs that users
//!   ask for.
//! - LEAD-1: `fire` changes nothing unless the epoch is the shard's newest.
//! - TICK-1: a job's id is its key, and the id of a tick's job is derived from schedule and tick.
//!   Making it again is a no-op.
//! - JOB-1, JOB-2: claims and commits are conditional on state, attempt number and claimer.
//!
//! One bad row does not block the others. A stage's batch passes over rows that another transaction
//! has locked, and leaves out rows that cannot be read back. It reports them in its answer and
//! continues with the rest.
//!
//! On failure a method returns a [`StoreError`] with the operation and the kind of the failure.
//! After a transient failure the caller cannot know whether the effect took place. So all methods
//! of the stages can be called again with the same arguments, with the same result. Nothing is done
//! twice. Only claims are reported again: a repeated call with the same claim returns them, or
//! `expired` finds them. The tickets of a lost response are found by `late`. There are two
//! exceptions: `raise_epoch` raises again, and `prune` continues. A method that creates something
//! under an id that exists already returns `Rejected`.

mod contract;
mod corrupt_rows;
mod encryption;
pub mod migrations;
pub mod postgres;
mod sql;
pub mod sqlite;
mod transfer;

pub use contract::accounts::{
    Account, AccountStore, AccountUsage, KeyCreated, KeyRotation, KeyUse, KnownKey, NewKey,
    RotationResult,
};
pub use contract::alert_claims::{
    ClaimedDeliveries, ClaimedDelivery, DeliveryClaim, DeliveryContent, TryEnd, TryOutcome,
};
pub use contract::alerts::{
    AlertStore, AlertWork, DELIVERIES_KEPT, Delivery, DeliveryPage, DeliveryQuery, DeliveryTry,
    Redelivered, RelayResult, WAITING_COUNTED,
};
pub use contract::audit::{AuditEntry, AuditPage, AuditQuery, AuditStore, INSTALLATION};
pub use contract::channels::{
    ChannelChange, ChannelChanged, ChannelCreated, ChannelStore, NewChannel, StoredChannel,
    TESTS_PER_HOUR, TestAllowance,
};
pub use contract::claims::{
    AttemptEnd, ClaimRequest, ClaimStore, ClaimedJob, ClaimedJobs, ClaimedRun, Committed,
    Completion, CompletionResult, ExecutorId, JobsToAbort, LATE_OF_EACH, LATEST_EFFECT,
    RecordedAttempt, UnreadableJob,
};
pub use contract::deletion::{
    DeletedAccount, DeletedPosition, DeletionStore, ErasureResult, SETTLED, SkipPosition,
    StoredMonth, StoredSkip, StoredVersion,
};
pub use contract::error::{StoreError, StoreErrorKind};
pub use contract::firing::{
    CHANGES_KEPT, Candidate, DueEntry, Fence, Fired, Firing, FiringStore, TickJob,
};
pub use contract::hours::{HOURS_KEPT, HourStore};
pub use contract::idempotency::{ANSWERS_KEPT, IdempotencyStore, Receipt, Reservation, Reserved};
pub use contract::identities::{Identity, IdentityLink, IdentityStore};
pub use contract::jobs::{
    Cancelled, JobPage, JobQuery, JobStore, NewJob, RetryResult, TriggerResult,
};
pub use contract::leadership::{Leadership, LeadershipStore, ReplicaLease, ShardLeader};
pub use contract::preferences::{
    AttachedChannel, ChannelUses, NewPreference, PreferenceSet, PreferenceStore, StoredPreference,
};
pub use contract::quotas::{GrantedJobs, JobGrants, QuotaStore, UsedUp, WantedJobs};
pub use contract::schedules::{
    AuthoredVersion, CreationResult, ExpectedState, NewSchedule, NewVersion, RecurrenceCount,
    ScheduleChangeResult, SchedulePage, ScheduleQuery, ScheduleSort, ScheduleState, ScheduleStore,
    SkipPage, SkipQuery, SortField, SortValue, TickRange, VersionPage,
};
pub use contract::secrets::{KeyProof, Resealed, SealedTable, SecretStore};
pub use contract::signing::{KnownSecret, NewSecret, SigningStore};
pub use contract::upkeep::{CurrentLeader, PrunedRows, ShardRecord, UpkeepStore, WaitingJobs};
pub use contract::users::{
    AccountMember, Invitation, JoinedAccount, MemberChange, MemberChanged, Membership,
    NewInvitation, NewReset, NewSession, NewUser, PasswordHash, Session, SessionEnding, User,
    UserCreated, UserStore,
};
pub use corrupt_rows::signing_secret_unreadable;
pub use encryption::cipher::{OpenError, SecretCipher};
pub use transfer::copy::{CopiedPage, NextTicks, RowKey, Table};

use crate::domain::audit::Author;
use crate::domain::call::Idempotency;
use crate::domain::{AccountId, AuditId, Timestamp};

/// Declares a trait that combines these traits. Every type that has all of them has it.
macro_rules! all_of {
    ($(#[$doc:meta])* $name:ident: $first:ident $(+ $part:ident)*) => {
        $(#[$doc])*
        pub trait $name: $first $(+ $part)* {}

        impl<T: $first $(+ $part)*> $name for T {}
    };
}

all_of! {
    /// The contract that every adapter implements.
    Store: AccountStore + QuotaStore + ScheduleStore + JobStore + FiringStore + ClaimStore
        + UpkeepStore + UserStore + IdentityStore + SecretStore + AuditStore + IdempotencyStore + SigningStore
        + DeletionStore + ChannelStore + PreferenceStore + AlertStore + LeadershipStore + HourStore
}

/// A shared store.
pub type SharedStore = std::sync::Arc<dyn Store>;

/// The result of the contract's methods.
pub type Result<T> = std::result::Result<T, StoreError>;

/// The time and the author of a change whose account is found out only by the change.
#[derive(Clone, Copy, Debug)]
pub struct AuditContext {
    /// The present time.
    pub now: Timestamp,
    /// The author of the change and its origin.
    pub author: Author,
    /// The id of the entry in the audit log, made at `now`.
    pub entry: AuditId,
}

impl AuditContext {
    /// Returns the write for a change of this account's data.
    pub(in crate::store) fn on(self, account: AccountId) -> WriteContext {
        let Self { now, author, entry } = self;
        WriteContext { account, now, author, entry, idempotency: None }
    }
}

/// The account, the time and the author of a change. A change that takes effect writes an entry to
/// the audit log in the same transaction. A change without effect writes none.
#[derive(Clone, Copy, Debug)]
pub struct WriteContext {
    /// The account whose data is changed.
    pub account: AccountId,
    /// The present time.
    pub now: Timestamp,
    /// The author of the change and its origin.
    pub author: Author,
    /// The id of the entry in the audit log, made at `now`. A change of several objects writes one
    /// entry for each, with consecutive ids.
    pub entry: AuditId,
    /// The reservation under which the call takes effect, if the call carries an idempotency key.
    /// Such a call makes one change.
    pub idempotency: Option<Idempotency>,
}
