//! A store whose calls pass through the gate, which injects faults.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use punctual::domain::alert::grouping::GroupingRules;
use punctual::domain::audit::Action;
use punctual::domain::call::Idempotency;
use punctual::domain::channel::{Channel, ChannelConfig};
use punctual::domain::hours::AccountHour;
use punctual::domain::job::{Attempt, Job};
use punctual::domain::key::KeyRecord;
use punctual::domain::schedule::Schedule;
use punctual::domain::shard::{Epoch, ShardId};
use punctual::domain::ticket::Ticket;
use punctual::domain::token::TokenDigest;
use punctual::domain::user::{EmailAddress, Role, TimeDisplay};
use punctual::domain::{
    AccountId, ChannelId, DeliveryId, InvitationId, JobId, KeyId, ScheduleId, SessionId, Timestamp,
    UserId, VersionId,
};
use punctual::store::{
    Account, AccountStore, AccountUsage, AuditContext, AuditPage, AuditQuery, AuditStore,
    Cancelled, Candidate, ClaimRequest, ClaimStore, ClaimedJobs, Committed, Completion,
    CreationResult, DeletedAccount, DeletedPosition, DeletionStore, DueEntry, ErasureResult,
    ExecutorId, Fence, Fired, Firing, FiringStore, GrantedJobs, HourStore, IdempotencyStore,
    JobGrants, JobPage, JobQuery, JobStore, JobsToAbort, KeyCreated, KeyProof, KeyRotation, KeyUse,
    KnownKey, KnownSecret, Leadership, LeadershipStore, NewJob, NewKey, NewSchedule, NewSecret,
    PrunedRows, QuotaStore, RecordedAttempt, RecurrenceCount, ReplicaLease, Resealed, Reservation,
    Reserved, Result, RetryResult, RotationResult, ScheduleChangeResult, SchedulePage,
    ScheduleQuery, ScheduleState, ScheduleStore, SealedTable, SecretStore, ShardRecord,
    SharedStore, SigningStore, SkipPage, SkipPosition, SkipQuery, StoreError, StoreErrorKind,
    StoredMonth, StoredSkip, StoredVersion, TriggerResult, UpkeepStore, VersionPage, WaitingJobs,
    WantedJobs, WriteContext,
};
use punctual::store::{
    AccountMember, Invitation, JoinedAccount, MemberChange, MemberChanged, Membership,
    NewInvitation, NewReset, NewSession, NewUser, PasswordHash, Session, SessionEnding, User,
    UserCreated, UserStore,
};
use punctual::store::{
    AlertStore, AlertWork, ChannelChange, ChannelChanged, ChannelCreated, ChannelStore,
    ChannelUses, ClaimedDeliveries, Delivery, DeliveryClaim, DeliveryPage, DeliveryQuery,
    NewChannel, NewPreference, PreferenceSet, PreferenceStore, Redelivered, RelayResult,
    StoredChannel, StoredPreference, TestAllowance, TryEnd,
};
use punctual::store::{Identity, IdentityLink, IdentityStore};

use crate::firings::BadFirings;
use crate::gate::Gate;
use crate::outcomes::Rows;
use crate::takeovers::Takeovers;

/// A store whose calls may meet faults.
pub struct GatedStore {
    pub inner: SharedStore,
    pub gate: Arc<Gate>,
    pub rows: Arc<Rows>,
    pub firings: Arc<BadFirings>,
    pub takeovers: Arc<Takeovers>,
}

/// Implements a part of the contract by passing each method through the gate. A method with
/// `#[check_limit(limit)]` first compares its limit with [`Rows::check_limit`].
macro_rules! gated {
    ($contract:ident: $(
        $(#[$check:ident($limit:ident)])?
        fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $output:ty;
    )* $({ $($more:tt)* })?) => {
        #[async_trait]
        impl $contract for GatedStore {
            $(async fn $name(&self $(, $argument: $type)*) -> Result<$output> {
                let failed = |fault| {
                    StoreError::new(stringify!($name), StoreErrorKind::Unavailable, fault)
                };
                let call = async {
                    $(self.rows.$check(stringify!($name), $limit)?;)?
                    self.inner.$name($($argument),*).await
                };
                self.gate.pass(stringify!($name), call, failed).await
            })*
            $($($more)*)?
        }
    };
}

gated! { AccountStore:
    fn create_account(&self, write: &WriteContext, name: &str, plan: &str) -> bool;
    fn accounts(&self) -> Vec<Account>;
    fn account(&self, id: AccountId) -> Option<Account>;
    fn usage(&self, id: AccountId, now: Timestamp) -> AccountUsage;
    fn jobs_made(&self, id: AccountId, now: Timestamp) -> u64;
    fn set_plan(&self, write: &WriteContext, plan: &str) -> bool;
    fn set_suspended(&self, write: &WriteContext, suspended: bool) -> bool;
    fn plans_beside(&self, known: &[String]) -> Vec<String>;
    fn create_key(&self, write: &WriteContext, key: &NewKey) -> KeyCreated;
    fn keys(&self, account: AccountId) -> Vec<KeyRecord>;
    fn rotate_key(&self, write: &WriteContext, rotation: &KeyRotation) -> RotationResult;
    fn revoke_key(&self, write: &WriteContext, id: KeyId) -> bool;
    fn key(&self, id: KeyId) -> Option<KnownKey>;
    fn note_key_uses(&self, uses: &[KeyUse]) -> ();
}

gated! { QuotaStore:
    fn reserve_jobs(&self, now: Timestamp, ahead: u32, wanted: &[WantedJobs]) -> JobGrants;
    fn await_jobs(&self, now: Timestamp, ahead: u32, wanted: &WantedJobs) -> Option<GrantedJobs>;
    fn begin_months(&self, now: Timestamp, accounts: &[AccountId]) -> ();
    fn plans_of(&self, accounts: &[AccountId]) -> Vec<(AccountId, String)>;
}

gated! { ScheduleStore:
    fn create_schedules(&self, write: &WriteContext, schedules: &[NewSchedule], most: Option<u64>)
        -> CreationResult;
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
    fn change_schedule(&self, write: &WriteContext, id: ScheduleId, change: &ScheduleState) -> ScheduleChangeResult;
    fn delete_schedule(&self, write: &WriteContext, id: ScheduleId) -> bool;
    fn skips(&self, account: AccountId, id: ScheduleId, query: &SkipQuery) -> SkipPage;
}

gated! { JobStore:
    fn create_job(&self, write: &WriteContext, job: &NewJob, quota: Option<u64>) -> TriggerResult;
    fn retry_job(&self, write: &WriteContext, of: JobId, id: JobId, quota: Option<u64>) -> RetryResult;
    fn cancel_job(&self, write: &WriteContext, id: JobId) -> Cancelled;
    fn job(&self, account: AccountId, id: JobId) -> Option<(Job, Vec<Attempt>)>;
    fn jobs(&self, account: AccountId, query: &JobQuery) -> JobPage;
}

gated! { FiringStore:
    fn next_ticks(&self, shard: ShardId, after: Option<ScheduleId>, limit: u32) -> Vec<DueEntry>;
    fn candidates(
        &self,
        ids: &[(ShardId, ScheduleId)],
        late_before: Timestamp
    ) -> Vec<Candidate>;
    fn unstarted(&self, schedules: &[ScheduleId], most: u32) -> HashMap<ScheduleId, u32>;
    {
        async fn fire(
            &self,
            fences: &[Fence],
            now: Timestamp,
            firings: &[Firing],
        ) -> Result<Fired> {
            let fire = async {
                self.firings.check("fire", firings)?;
                self.inner.fire(fences, now, firings).await
            };
            let failed = |fault| StoreError::new("fire", StoreErrorKind::Unavailable, fault);
            self.gate.pass("fire", fire, failed).await
        }

        async fn fire_and_claim(
            &self,
            fences: &[Fence],
            claim: &ClaimRequest,
            firings: &[Firing],
        ) -> Result<(Fired, ClaimedJobs)> {
            let fire = async {
                self.firings.check("fire_and_claim", firings)?;
                self.inner.fire_and_claim(fences, claim, firings).await
            };
            let failed =
                |fault| StoreError::new("fire_and_claim", StoreErrorKind::Unavailable, fault);
            self.gate.pass("fire_and_claim", fire, failed).await
        }
    }
}

gated! { ClaimStore:
    fn claim(&self, claim: &ClaimRequest, jobs: &[JobId]) -> ClaimedJobs;
    fn recall(&self, claim: &ClaimRequest, jobs: &[JobId]) -> ClaimedJobs;
    fn renew(&self, executor: ExecutorId, until: Timestamp, now: Timestamp) -> ();
    fn aborts(&self) -> JobsToAbort;
    #[check_limit(limit)]
    fn late(&self, before: Timestamp, after: Option<(Timestamp, JobId)>, limit: u32) -> Vec<Ticket>;
    fn late_of_each(
        &self,
        before: Timestamp,
        after: Option<AccountId>
    ) -> (Vec<Ticket>, Option<AccountId>);
    #[check_limit(limit)]
    fn expired(&self, before: Timestamp, limit: u32) -> Vec<RecordedAttempt>;
    fn claims_of(&self, executor: ExecutorId, before: Timestamp) -> Vec<RecordedAttempt>;
    {
        async fn commit(
            &self,
            now: Timestamp,
            completions: &[Completion],
        ) -> Result<Committed> {
            let commit = async {
                if self.rows.is_slow(completions) {
                    let kind = StoreErrorKind::Unavailable;
                    return Err(StoreError::new("commit", kind, "it took too long"));
                }
                match self.rows.locked_result(completions).await {
                    Some(committed) => Ok(committed),
                    None => self.inner.commit(now, completions).await,
                }
            };
            let failed = |fault| StoreError::new("commit", StoreErrorKind::Unavailable, fault);
            self.gate.pass("commit", commit, failed).await
        }
    }
}

gated! { SecretStore:
    fn use_keys(&self, others: &[KeyProof]) -> ();
    fn key_proofs(&self) -> Vec<KeyProof>;
    fn stale_secrets(&self) -> u64;
    fn reseal(&self, table: SealedTable, after: [u8; 16], limit: u32) -> Resealed;
    fn forget_keys(&self, abandon: bool) -> Vec<String>;
}

gated! { UpkeepStore:
    fn ping(&self) -> ();
    fn time(&self) -> Option<Timestamp>;
    fn prepare(&self, now: Timestamp) -> ();
    fn prune(&self, before: Timestamp, limit: u32) -> PrunedRows;
    fn short_histories(&self, plan: &str, before: Timestamp, limit: u32) -> Vec<AccountId>;
    #[check_limit(limit)]
    fn prune_account(
        &self,
        account: AccountId,
        before: Timestamp,
        now: Timestamp,
        limit: u32
    ) -> u64;
    fn prune_keys(&self, before: Timestamp, limit: u32) -> u64;
    fn shard_records(&self, now: Timestamp) -> Vec<ShardRecord>;
    fn unfinished(&self, cap: u32) -> u64;
    fn waiting(&self, now: Timestamp, cap: u32) -> WaitingJobs;
}

gated! { HourStore:
    fn hours(&self, account: AccountId, from: Timestamp) -> Vec<AccountHour>;
    fn prune_hours(&self, before: Timestamp, limit: u32) -> u64;
}

gated! { UserStore:
    fn create_user(&self, audit_context: &AuditContext, user: &NewUser, joins: &JoinedAccount) -> UserCreated;
    fn user(&self, id: UserId) -> Option<User>;
    fn user_named(&self, email: &EmailAddress) -> Option<User>;
    fn users(&self) -> Vec<User>;
    fn set_password(&self, audit_context: &AuditContext, user: UserId, version: Option<i64>, password: &PasswordHash,
        keep: Option<SessionId>) -> bool;
    fn rehash_password(&self, user: UserId, version: i64, password: &PasswordHash) -> ();
    fn disable_user(&self, audit_context: &AuditContext, user: UserId, disabled: bool) -> bool;
    fn confirm_email(&self, audit_context: &AuditContext, user: UserId) -> bool;
    fn set_operator(&self, audit_context: &AuditContext, user: UserId, is_operator: bool) -> bool;
    fn set_time_display(&self, audit_context: &AuditContext, user: UserId, display: TimeDisplay) -> bool;
    fn members(&self, account: AccountId) -> Vec<AccountMember>;
    fn memberships(&self, user: UserId) -> Vec<Membership>;
    fn role(&self, account: AccountId, user: UserId) -> Option<Role>;
    fn change_member(&self, write: &WriteContext, user: UserId, change: MemberChange) -> MemberChanged;
    fn create_invitation(&self, write: &WriteContext, invitation: &NewInvitation) -> bool;
    fn invitations(&self, account: AccountId, now: Timestamp) -> Vec<Invitation>;
    fn delete_invitation(&self, write: &WriteContext, id: InvitationId) -> bool;
    fn accept_invitation(&self, audit_context: &AuditContext, user: UserId, digest: TokenDigest) -> Option<AccountId>;
    fn create_session(&self, now: Timestamp, session: &NewSession) -> bool;
    fn session(&self, digest: TokenDigest, now: Timestamp) -> Option<Session>;
    fn sessions(&self, user: UserId, now: Timestamp) -> Vec<Session>;
    fn extend_session(&self, now: Timestamp, id: SessionId, expires_at: Timestamp) -> ();
    fn end_sessions(&self, audit_context: &AuditContext, user: UserId, which: SessionEnding) -> ();
    fn create_reset(&self, now: Timestamp, reset: &NewReset) -> bool;
    fn reset(&self, digest: TokenDigest, now: Timestamp) -> Option<UserId>;
    fn complete_reset(&self, audit_context: &AuditContext, digest: TokenDigest, password: &PasswordHash) -> Option<UserId>;
    fn prune_logins(&self, now: Timestamp, limit: u32) -> u64;
}

gated! { IdentityStore:
    fn identity_user(&self, identity: &Identity) -> Option<User>;
    fn link_identity(&self, audit_context: &AuditContext, user: UserId, identity: &Identity) -> IdentityLink;
    fn unlink_identities(&self, audit_context: &AuditContext, user: UserId) -> bool;
    fn create_identity_user(&self, audit_context: &AuditContext, user: &NewUser, identity: &Identity,
        joins: &JoinedAccount) -> UserCreated;
}

gated! { AuditStore:
    fn enter_rotation(&self, audit_context: &AuditContext) -> ();
    fn enter_restoration(&self, audit_context: &AuditContext) -> ();
    fn enter_reading(&self, write: &WriteContext, how: Action) -> ();
    fn audit_log(&self, account: AccountId, query: &AuditQuery) -> AuditPage;
    #[check_limit(limit)]
    fn prune_audit_log(&self, before: Timestamp, limit: u32) -> u64;
}

gated! { IdempotencyStore:
    fn reserve(&self, account: AccountId, now: Timestamp, reservation: &Reservation) -> Reserved;
    fn keep_answer(&self, account: AccountId, idempotency: Idempotency, answer: &str) -> ();
    fn release(&self, account: AccountId, idempotency: Idempotency) -> ();
    fn prune_answers(&self, before: Timestamp, limit: u32) -> u64;
}

gated! { SigningStore:
    fn make_first_secrets(&self) -> ();
    fn signing_secrets(&self, account: AccountId) -> Vec<KnownSecret>;
    fn rotate_signing_secret(&self, write: &WriteContext, new: &NewSecret) -> bool;
    fn prune_signing_secrets(&self, before: Timestamp, limit: u32) -> u64;
}

gated! { LeadershipStore:
    fn set_up_shards(&self, wanted: u16) -> u16;
    fn installation(&self, proposed: u32) -> u32;
    fn raise_epoch(&self, shard: ShardId, replica: &str, now: Timestamp) -> Epoch;
    fn renew_replica(&self, lease: &ReplicaLease, now: Timestamp) -> ();
    fn end_replica(&self, name: &str) -> ();
    fn leadership(&self, now: Timestamp) -> Leadership;
    {
        async fn replace_leader(
            &self,
            shard: ShardId,
            seen: Epoch,
            replica: &str,
            now: Timestamp,
        ) -> Result<Option<Epoch>> {
            let replace = self.takeovers.replace(&self.inner, (shard, seen), replica, now);
            let failed =
                |fault| StoreError::new("replace_leader", StoreErrorKind::Unavailable, fault);
            self.gate.pass("replace_leader", replace, failed).await
        }
    }
}

gated! { DeletionStore:
    fn versions(&self, account: AccountId, after: Option<VersionId>, limit: u32)
        -> Vec<StoredVersion>;
    fn skips_of(&self, account: AccountId, after: Option<SkipPosition>, limit: u32)
        -> Vec<StoredSkip>;
    fn months(&self, account: AccountId) -> Vec<StoredMonth>;
    fn delete_account(&self, write: &WriteContext) -> bool;
    fn deleted_accounts(&self) -> Vec<DeletedAccount>;
    fn accounts_to_erase(&self, after: Option<DeletedPosition>, limit: u32) -> Vec<DeletedAccount>;
    fn rows_left(&self, account: AccountId) -> u64;
    #[check_limit(limit)]
    fn erase(&self, account: AccountId, now: Timestamp, limit: u32) -> ErasureResult;
}

gated! { ChannelStore:
    fn create_channel(&self, write: &WriteContext, channel: &NewChannel, most: Option<u64>)
        -> ChannelCreated;
    fn channels(&self, account: AccountId) -> Vec<Channel>;
    fn channel(&self, account: AccountId, id: ChannelId) -> Option<StoredChannel>;
    fn change_channel(&self, write: &WriteContext, id: ChannelId, revision: i64, change: &ChannelChange)
        -> ChannelChanged;
    fn delete_channel(&self, write: &WriteContext, id: ChannelId) -> bool;
    fn count_test(&self, account: AccountId, id: ChannelId, now: Timestamp) -> TestAllowance;
    fn verify_channel(&self, write: &WriteContext, id: ChannelId, revision: i64,
        config: Option<&ChannelConfig>) -> ChannelChanged;
    fn unverify_channel(&self, write: &WriteContext, id: ChannelId, trouble: &str) -> bool;
}

gated! { PreferenceStore:
    fn preference(&self, account: AccountId, schedule: ScheduleId) -> Option<StoredPreference>;
    fn channel_uses(&self, account: AccountId, channel: ChannelId, limit: u32) -> ChannelUses;
    fn set_preference(&self, write: &WriteContext, schedule: ScheduleId, new: &NewPreference)
        -> PreferenceSet;
}

gated! { AlertStore:
    fn alert_work(&self, now: Timestamp) -> AlertWork;
    fn relay(&self, now: Timestamp, limit: u32, rules: &GroupingRules) -> RelayResult;
    fn claim_deliveries(&self, claim: &DeliveryClaim) -> ClaimedDeliveries;
    fn release_deliveries(&self, now: Timestamp) -> u64;
    fn complete_tries(&self, now: Timestamp, ends: &[TryEnd]) -> Vec<bool>;
    fn deliveries(&self, account: AccountId, query: &DeliveryQuery) -> DeliveryPage;
    fn delivery(&self, account: AccountId, id: DeliveryId) -> Option<Delivery>;
    fn redeliver(&self, write: &WriteContext, id: DeliveryId) -> Redelivered;
    fn prune_deliveries(&self, before: Timestamp, limit: u32) -> u64;
}
