//! A store whose calls meet faults. Failed calls are repeated, or the caller gets the errors.
//!
//! Reads and most writes can be repeated: the second answer is as good as the first. A repeated
//! call that creates something with a given id answers that it exists. One that expects a given
//! state answers that the state has changed. In both cases the caller knows, or reads, that the
//! first call took effect.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use punctual::domain::audit::Action;
use punctual::domain::call::Idempotency;
use punctual::domain::hours::AccountHour;
use punctual::domain::job::{Attempt, Job};
use punctual::domain::key::KeyRecord;
use punctual::domain::schedule::Schedule;
use punctual::domain::shard::{Epoch, ShardId};
use punctual::domain::ticket::Ticket;
use punctual::domain::token::TokenDigest;
use punctual::domain::user::{EmailAddress, Role, TimeDisplay};
use punctual::domain::{
    AccountId, InvitationId, JobId, KeyId, ScheduleId, SessionId, Timestamp, UserId, VersionId,
};
use punctual::store::{
    Account, AccountStore, AccountUsage, AuditContext, AuditPage, AuditQuery, AuditStore,
    Cancelled, Candidate, ClaimRequest, ClaimStore, ClaimedJobs, Committed, Completion,
    CompletionResult, CreationResult, DueEntry, ExecutorId, Fence, Fired, Firing, FiringStore,
    GrantedJobs, HourStore, IdempotencyStore, JobGrants, JobPage, JobQuery, JobStore, JobsToAbort,
    KeyCreated, KeyProof, KeyRotation, KeyUse, KnownKey, KnownSecret, NewJob, NewKey, NewSchedule,
    NewSecret, PrunedRows, QuotaStore, RecordedAttempt, RecurrenceCount, Resealed, Reservation,
    Reserved, Result, RetryResult, RotationResult, ScheduleChangeResult, SchedulePage,
    ScheduleQuery, ScheduleState, ScheduleStore, SealedTable, SecretStore, ShardRecord,
    SharedStore, SigningStore, SkipPage, SkipQuery, StoreError, StoreErrorKind, TriggerResult,
    UpkeepStore, VersionPage, WaitingJobs, WantedJobs, WriteContext,
};
use punctual::store::{
    AccountMember, Invitation, JoinedAccount, MemberChange, MemberChanged, Membership,
    NewInvitation, NewReset, NewSession, NewUser, PasswordHash, Session, SessionEnding, User,
    UserCreated, UserStore,
};
use punctual::store::{
    DeletedAccount, DeletedPosition, DeletionStore, ErasureResult, SkipPosition, StoredMonth,
    StoredSkip, StoredVersion,
};
use punctual::store::{Identity, IdentityLink, IdentityStore};
use punctual::store::{Leadership, LeadershipStore, ReplicaLease};

use crate::conformance::faults::{Faults, done_once};

/// A store whose calls meet faults.
pub struct FlakyStore {
    pub inner: SharedStore,
    pub faults: Arc<Faults>,
    /// If `true`, the caller gets the errors, as the service does. Otherwise failed calls are
    /// repeated.
    pub is_told: bool,
}

/// Implements a part of the contract. A method that can simply be called again ends with `;`.
/// Another one ends with a function that combines the lost answer with the answer to the repeated
/// call.
macro_rules! flaky {
    ($contract:ident: $(
        fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $output:ty
        $(=> $settle:expr)?;
    )*) => {
        #[async_trait]
        impl $contract for FlakyStore {
            $(async fn $name(&self $(, $argument: $type)*) -> Result<$output> {
                let call = || self.inner.$name($($argument),*);
                if self.is_told {
                    let failed = || Err(injected(stringify!($name)));
                    return self.faults.call_once(stringify!($name), call(), failed).await;
                }
                flaky!(@call self, stringify!($name), call $(, $settle)?)
            })*
        }
    };
    (@call $self:ident, $name:expr, $call:ident) => {
        $self.faults.repeatable($name, $call).await
    };
    (@call $self:ident, $name:expr, $call:ident, $settle:expr) => {
        $self.faults.call($name, $call, async |lost| ($settle)(lost, $call().await)).await
    };
}

mod notifications;

/// Returns the error of a call that failed, or that may have failed.
fn injected(operation: &'static str) -> StoreError {
    StoreError::new(operation, StoreErrorKind::Unavailable, "a fault of the test")
}

/// Returns the sum of the results of both calls if both succeeded, and otherwise the second result.
fn both<T>(lost: Result<T>, again: Result<T>, sum: impl FnOnce(T, T) -> T) -> Result<T> {
    match (lost, again) {
        (Ok(lost), Ok(again)) => Ok(sum(lost, again)),
        (_, again) => again,
    }
}

/// Joins the results of both calls.
///
/// # Panics
/// If an item is in both results: it was done twice.
fn each_once<T, K: Ord>(mut first: Vec<T>, then: Vec<T>, of: impl Fn(&T) -> K) -> Vec<T> {
    let known: BTreeSet<K> = first.iter().map(&of).collect();
    assert!(then.iter().all(|one| !known.contains(&of(one))), "done twice");
    first.extend(then);
    first
}

/// Combines two firings. The repeated call may fire schedules that were locked before.
fn fired(lost: Fired, again: Fired) -> Fired {
    Fired {
        tickets: each_once(lost.tickets, again.tickets, |ticket| ticket.job),
        held: each_once(lost.held, again.held, |job| *job),
        overlapped: lost.overlapped + again.overlapped,
        advanced: each_once(lost.advanced, again.advanced, |(schedule, _)| *schedule),
        stale: lost.stale,
        busy: again.busy,
        fenced: again.fenced,
    }
}

/// Combines two claims. Nothing may be claimed twice.
fn claimed(lost: ClaimedJobs, again: ClaimedJobs) -> ClaimedJobs {
    ClaimedJobs {
        taken: each_once(lost.taken, again.taken, |claimed| claimed.job),
        unreadable: each_once(lost.unreadable, again.unreadable, |claimed| claimed.job),
    }
}

/// Combines two commits. The repeated call does not return tickets again: `late` finds them.
fn committed(lost: Committed, again: Committed) -> Committed {
    let result = |(lost, again)| match lost {
        CompletionResult::Applied(_) => {
            assert_eq!(again, CompletionResult::Lost, "the first commit took effect");
            lost
        }
        CompletionResult::Lost | CompletionResult::Busy => again,
    };
    Committed {
        results: lost.results.into_iter().zip(again.results).map(result).collect(),
        tickets: each_once(lost.tickets, again.tickets, |ticket| ticket.job),
        events: lost.events + again.events,
        failed: [lost.failed, again.failed].concat(),
    }
}

/// Returns `true` if the repeated call was refused, because its row exists or because the account
/// has been suspended since.
fn is_refused<T>(again: &Result<T>) -> bool {
    let kind = again.as_ref().err().map(StoreError::kind);
    matches!(kind, Some(StoreErrorKind::Rejected | StoreErrorKind::Suspended))
}

flaky! { AccountStore:
    fn create_account(&self, write: &WriteContext, name: &str, plan: &str) -> bool
        => |lost, again| done_once(lost, again, |made| *made, |_, again| matches!(again, Ok(false)));
    fn accounts(&self) -> Vec<Account>;
    fn account(&self, id: AccountId) -> Option<Account>;
    fn usage(&self, id: AccountId, now: Timestamp) -> AccountUsage;
    fn jobs_made(&self, id: AccountId, now: Timestamp) -> u64;
    fn set_plan(&self, write: &WriteContext, plan: &str) -> bool;
    fn set_suspended(&self, write: &WriteContext, suspended: bool) -> bool;
    fn plans_beside(&self, known: &[String]) -> Vec<String>;
    fn create_key(&self, write: &WriteContext, key: &NewKey) -> KeyCreated
        => |lost, again| {
            done_once(lost, again, |made| *made == KeyCreated::Done, |_, again| {
                is_refused(again) || matches!(again, Ok(KeyCreated::TooMany))
            })
        };
    fn keys(&self, account: AccountId) -> Vec<KeyRecord>;
    fn rotate_key(&self, write: &WriteContext, rotation: &KeyRotation) -> RotationResult
        => |lost, again| done_once(lost, again, |rotated| *rotated == RotationResult::Done, |_, again| {
            // The account may have the maximum number of keys by then.
            is_refused(again) || matches!(again, Ok(RotationResult::TooMany))
        });
    fn revoke_key(&self, write: &WriteContext, id: KeyId) -> bool;
    fn key(&self, id: KeyId) -> Option<KnownKey>;
    fn note_key_uses(&self, uses: &[KeyUse]) -> ();
}

flaky! { QuotaStore:
    // If the answer is lost, its reservation is lost, too.
    fn reserve_jobs(&self, now: Timestamp, ahead: u32, wanted: &[WantedJobs]) -> JobGrants;
    fn await_jobs(&self, now: Timestamp, ahead: u32, wanted: &WantedJobs) -> Option<GrantedJobs>;
    fn begin_months(&self, now: Timestamp, accounts: &[AccountId]) -> ();
    fn plans_of(&self, accounts: &[AccountId]) -> Vec<(AccountId, String)>;
}

flaky! { ScheduleStore:
    fn create_schedules(&self, write: &WriteContext, schedules: &[NewSchedule], most: Option<u64>)
        -> CreationResult
        => |lost, again| {
            let done = |created: &CreationResult| *created == CreationResult::All && !schedules.is_empty();
            done_once(lost, again, done, |_, again| {
                is_refused(again) || matches!(again, Ok(CreationResult::TooMany { .. }))
            })
        };
    fn schedule(&self, account: AccountId, id: ScheduleId) -> Option<Schedule>;
    fn schedules(&self, account: AccountId, query: &ScheduleQuery) -> SchedulePage;
    fn schedule_versions(
        &self,
        account: AccountId,
        id: ScheduleId,
        from: Option<VersionId>,
        limit: u32
    ) -> VersionPage;
    fn recurrences(&self, account: AccountId, limit: u32) -> Vec<RecurrenceCount>;
    fn change_schedule(&self, write: &WriteContext, id: ScheduleId, change: &ScheduleState) -> ScheduleChangeResult
        => |lost, again| {
            let done = |changed: &ScheduleChangeResult| matches!(changed, ScheduleChangeResult::Done(_));
            done_once(lost, again, done, |_, again| matches!(again, Ok(ScheduleChangeResult::Stale)))
        };
    fn delete_schedule(&self, write: &WriteContext, id: ScheduleId) -> bool
        => |lost, again| done_once(lost, again, |gone| *gone, |_, again| matches!(again, Ok(false)));
    fn skips(&self, account: AccountId, id: ScheduleId, query: &SkipQuery) -> SkipPage;
}

flaky! { JobStore:
    fn create_job(&self, write: &WriteContext, job: &NewJob, quota: Option<u64>) -> TriggerResult
        // The schedule may have been deleted in between.
        => |lost, again| {
            let done = |made: &TriggerResult| matches!(made, TriggerResult::Created(_));
            done_once(lost, again, done, |_, again| {
                is_refused(again) || !matches!(again, Ok(TriggerResult::Created(_)))
            })
        };
    fn retry_job(&self, write: &WriteContext, of: JobId, id: JobId, quota: Option<u64>) -> RetryResult
        => |lost, again| {
            let done = |retried: &RetryResult| matches!(retried, RetryResult::Created(_));
            done_once(lost, again, done, |_, again| is_refused(again))
        };
    fn cancel_job(&self, write: &WriteContext, id: JobId) -> Cancelled
        => |lost, again| {
            let done = |cancelled: &Cancelled| matches!(cancelled, Cancelled::Done(_));
            done_once(lost, again, done, |_, again| match again {
                // For a running job every call returns this.
                Ok(Cancelled::Done(tickets)) => tickets.is_empty(),
                again => matches!(again, Ok(Cancelled::Finished)),
            })
        };
    fn job(&self, account: AccountId, id: JobId) -> Option<(Job, Vec<Attempt>)>;
    fn jobs(&self, account: AccountId, query: &JobQuery) -> JobPage;
}

flaky! { FiringStore:
    fn next_ticks(&self, shard: ShardId, after: Option<ScheduleId>, limit: u32) -> Vec<DueEntry>;
    fn candidates(
        &self,
        ids: &[(ShardId, ScheduleId)],
        late_before: Timestamp
    ) -> Vec<Candidate>;
    fn unstarted(&self, schedules: &[ScheduleId], most: u32) -> HashMap<ScheduleId, u32>;
    fn fire(&self, fences: &[Fence], now: Timestamp, firings: &[Firing]) -> Fired
        => |lost, again| both(lost, again, fired);
    fn fire_and_claim(&self, fences: &[Fence], claim: &ClaimRequest, firings: &[Firing]) -> (Fired, ClaimedJobs)
        => |lost, again| both(lost, again, |lost: (Fired, ClaimedJobs), again: (Fired, ClaimedJobs)| {
            (fired(lost.0, again.0), claimed(lost.1, again.1))
        });
}

flaky! { ClaimStore:
    fn claim(&self, claim: &ClaimRequest, jobs: &[JobId]) -> ClaimedJobs
        => |lost, again| both(lost, again, claimed);
    fn recall(&self, claim: &ClaimRequest, jobs: &[JobId]) -> ClaimedJobs;
    fn renew(&self, executor: ExecutorId, until: Timestamp, now: Timestamp) -> ();
    fn aborts(&self) -> JobsToAbort;
    fn commit(&self, now: Timestamp, completions: &[Completion]) -> Committed
        => |lost, again| both(lost, again, committed);
    fn late(&self, before: Timestamp, after: Option<(Timestamp, JobId)>, limit: u32) -> Vec<Ticket>;
    fn late_of_each(
        &self,
        before: Timestamp,
        after: Option<AccountId>
    ) -> (Vec<Ticket>, Option<AccountId>);
    fn expired(&self, before: Timestamp, limit: u32) -> Vec<RecordedAttempt>;
    fn claims_of(&self, executor: ExecutorId, before: Timestamp) -> Vec<RecordedAttempt>;
}

flaky! { SecretStore:
    fn use_keys(&self, others: &[KeyProof]) -> ();
    fn key_proofs(&self) -> Vec<KeyProof>;
    fn stale_secrets(&self) -> u64;
    fn reseal(&self, table: SealedTable, after: [u8; 16], limit: u32) -> Resealed
        // The repeated call handles the next rows after the same row, if there are any.
        => |lost, again| both(lost, again, |lost: Resealed, again: Resealed| Resealed {
            sealed: lost.sealed + again.sealed,
            unreadable: lost.unreadable.max(again.unreadable),
            last: lost.last.max(again.last),
        });
    fn forget_keys(&self, abandon: bool) -> Vec<String>
        => |lost, again| both(lost, again, |lost, again| [lost, again].concat());
}

flaky! { SigningStore:
    fn make_first_secrets(&self) -> ();
    fn signing_secrets(&self, account: AccountId) -> Vec<KnownSecret>;
    fn rotate_signing_secret(&self, write: &WriteContext, new: &NewSecret) -> bool
        => |lost, again| done_once(lost, again, |rotated| *rotated, |_, again| is_refused(again));
    fn prune_signing_secrets(&self, before: Timestamp, limit: u32) -> u64
        => |lost, again| both(lost, again, |lost, again| lost + again);
}

flaky! { UpkeepStore:
    fn ping(&self) -> ();
    fn time(&self) -> Option<Timestamp>;
    fn prepare(&self, now: Timestamp) -> ();
    fn prune(&self, before: Timestamp, limit: u32) -> PrunedRows
        // The repeated call does the work of the next round.
        => |lost, again| both(lost, again, |lost, again: PrunedRows| PrunedRows {
            days: lost.days + again.days,
            jobs: lost.jobs + again.jobs,
            skips: lost.skips + again.skips,
            versions: lost.versions + again.versions,
        });
    fn short_histories(&self, plan: &str, before: Timestamp, limit: u32) -> Vec<AccountId>;
    fn prune_account(
        &self,
        account: AccountId,
        before: Timestamp,
        now: Timestamp,
        limit: u32
    ) -> u64
        => |lost, again| both(lost, again, |lost, again| lost + again);
    fn prune_keys(&self, before: Timestamp, limit: u32) -> u64
        => |lost, again| both(lost, again, |lost, again| lost + again);
    fn shard_records(&self, now: Timestamp) -> Vec<ShardRecord>;
    fn unfinished(&self, cap: u32) -> u64;
    fn waiting(&self, now: Timestamp, cap: u32) -> WaitingJobs;
}

flaky! { HourStore:
    fn hours(&self, account: AccountId, from: Timestamp) -> Vec<AccountHour>;
    fn prune_hours(&self, before: Timestamp, limit: u32) -> u64
        // The repeated call does the work of the next round.
        => |lost, again| both(lost, again, |lost, again| lost + again);
}

flaky! { UserStore:
    fn create_user(&self, audit_context: &AuditContext, user: &NewUser, joins: &JoinedAccount) -> UserCreated
        => |lost, again| {
            let done = |created: &UserCreated| *created == UserCreated::Created;
            done_once(lost, again, done, |_, again| {
                matches!(again, Ok(UserCreated::EmailTaken | UserCreated::NoSuchInvitation))
            })
        };
    fn user(&self, id: UserId) -> Option<User>;
    fn user_named(&self, email: &EmailAddress) -> Option<User>;
    fn users(&self) -> Vec<User>;
    fn set_password(&self, audit_context: &AuditContext, user: UserId, version: Option<i64>, password: &PasswordHash,
        keep: Option<SessionId>) -> bool
        => |lost, again| {
            let gone = |again: &_| version.is_some() && matches!(again, Ok(false));
            done_once(lost, again, |set| *set, |_, again| is_refused(again) || gone(again))
        };
    fn rehash_password(&self, user: UserId, version: i64, password: &PasswordHash) -> ();
    fn disable_user(&self, audit_context: &AuditContext, user: UserId, disabled: bool) -> bool;
    fn confirm_email(&self, audit_context: &AuditContext, user: UserId) -> bool;
    fn set_operator(&self, audit_context: &AuditContext, user: UserId, is_operator: bool) -> bool;
    fn set_time_display(&self, audit_context: &AuditContext, user: UserId, display: TimeDisplay) -> bool;
    fn members(&self, account: AccountId) -> Vec<AccountMember>;
    fn memberships(&self, user: UserId) -> Vec<Membership>;
    fn role(&self, account: AccountId, user: UserId) -> Option<Role>;
    fn change_member(&self, write: &WriteContext, user: UserId, change: MemberChange) -> MemberChanged
        => |lost, again| {
            let gone = change == MemberChange::Remove;
            let done = |changed: &MemberChanged| gone && *changed == MemberChanged::Done;
            done_once(lost, again, done, |_, again| matches!(again, Ok(MemberChanged::NoSuchMember)))
        };
    fn create_invitation(&self, write: &WriteContext, invitation: &NewInvitation) -> bool
        => |lost, again| done_once(lost, again, |made| *made, |_, again| is_refused(again));
    fn invitations(&self, account: AccountId, now: Timestamp) -> Vec<Invitation>;
    fn delete_invitation(&self, write: &WriteContext, id: InvitationId) -> bool
        => |lost, again| done_once(lost, again, |gone| *gone, |_, again| matches!(again, Ok(false)));
    fn accept_invitation(&self, audit_context: &AuditContext, user: UserId, digest: TokenDigest)
        -> Option<AccountId>
        => |lost, again| done_once(lost, again, Option::is_some, |_, again| matches!(again, Ok(None)));
    fn create_session(&self, now: Timestamp, session: &NewSession) -> bool
        => |lost, again| done_once(lost, again, |made| *made, |_, again| is_refused(again));
    fn session(&self, digest: TokenDigest, now: Timestamp) -> Option<Session>;
    fn sessions(&self, user: UserId, now: Timestamp) -> Vec<Session>;
    fn extend_session(&self, now: Timestamp, id: SessionId, expires_at: Timestamp) -> ();
    fn end_sessions(&self, audit_context: &AuditContext, user: UserId, which: SessionEnding) -> ();
    // The repeated call replaces the reset with itself.
    fn create_reset(&self, now: Timestamp, reset: &NewReset) -> bool;
    fn reset(&self, digest: TokenDigest, now: Timestamp) -> Option<UserId>;
    fn complete_reset(&self, audit_context: &AuditContext, digest: TokenDigest, password: &PasswordHash)
        -> Option<UserId>
        => |lost, again| done_once(lost, again, Option::is_some, |_, again| matches!(again, Ok(None)));
    fn prune_logins(&self, now: Timestamp, limit: u32) -> u64
        => |lost, again| both(lost, again, |lost, again| lost + again);
}

flaky! { IdentityStore:
    fn identity_user(&self, identity: &Identity) -> Option<User>;
    fn link_identity(&self, audit_context: &AuditContext, user: UserId, identity: &Identity) -> IdentityLink;
    fn unlink_identities(&self, audit_context: &AuditContext, user: UserId) -> bool;
    fn create_identity_user(&self, audit_context: &AuditContext, user: &NewUser, identity: &Identity,
        joins: &JoinedAccount) -> UserCreated
        => |lost, again| {
            let done = |created: &UserCreated| *created == UserCreated::Created;
            done_once(lost, again, done, |_, again| matches!(again, Ok(UserCreated::IdentityTaken)))
        };
}

flaky! { AuditStore:
    fn enter_rotation(&self, audit_context: &AuditContext) -> ()
        => |lost, again| done_once(lost, again, |()| true, |(), again| is_refused(again));
    fn enter_restoration(&self, audit_context: &AuditContext) -> ()
        => |lost, again| done_once(lost, again, |()| true, |(), again| is_refused(again));
    fn enter_reading(&self, write: &WriteContext, how: Action) -> ()
        => |lost, again| done_once(lost, again, |()| true, |(), again| is_refused(again));
    fn audit_log(&self, account: AccountId, query: &AuditQuery) -> AuditPage;
    fn prune_audit_log(&self, before: Timestamp, limit: u32) -> u64
        // The repeated call does the work of the next round.
        => |lost, again| both(lost, again, |lost, again| lost + again);
}

flaky! { IdempotencyStore:
    fn reserve(&self, account: AccountId, now: Timestamp, reservation: &Reservation) -> Reserved;
    fn keep_answer(&self, account: AccountId, idempotency: Idempotency, answer: &str) -> ();
    fn release(&self, account: AccountId, idempotency: Idempotency) -> ();
    fn prune_answers(&self, before: Timestamp, limit: u32) -> u64
        // The repeated call does the work of the next round.
        => |lost, again| both(lost, again, |lost, again| lost + again);
}

flaky! { LeadershipStore:
    fn set_up_shards(&self, wanted: u16) -> u16;
    fn installation(&self, proposed: u32) -> u32;
    // The repeated call raises it again, and the caller leads with the higher epoch.
    fn raise_epoch(&self, shard: ShardId, replica: &str, now: Timestamp) -> Epoch;
    fn renew_replica(&self, lease: &ReplicaLease, now: Timestamp) -> ();
    fn end_replica(&self, name: &str) -> ();
    fn leadership(&self, now: Timestamp) -> Leadership;
    fn replace_leader(&self, shard: ShardId, seen: Epoch, replica: &str, now: Timestamp)
        -> Option<Epoch>;
}

flaky! { DeletionStore:
    fn versions(&self, account: AccountId, after: Option<VersionId>, limit: u32)
        -> Vec<StoredVersion>;
    fn skips_of(&self, account: AccountId, after: Option<SkipPosition>, limit: u32)
        -> Vec<StoredSkip>;
    fn months(&self, account: AccountId) -> Vec<StoredMonth>;
    fn delete_account(&self, write: &WriteContext) -> bool
        => |lost, again| done_once(lost, again, |gone| *gone, |_, again| matches!(again, Ok(false)));
    fn deleted_accounts(&self) -> Vec<DeletedAccount>;
    fn accounts_to_erase(&self, after: Option<DeletedPosition>, limit: u32) -> Vec<DeletedAccount>;
    fn rows_left(&self, account: AccountId) -> u64;
    fn erase(&self, account: AccountId, now: Timestamp, limit: u32) -> ErasureResult
        // The repeated call does the work of the next round.
        => |lost, again| both(lost, again, |lost: ErasureResult, again: ErasureResult| ErasureResult {
            rows: lost.rows + again.rows,
            schedules: [lost.schedules, again.schedules].concat(),
            gone: lost.gone || again.gone,
        });
}
