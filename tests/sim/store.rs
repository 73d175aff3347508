//! The store behind the gate.

use std::sync::Arc;

use async_trait::async_trait;
use punctual::domain::call::Once;
use punctual::domain::job::{Attempt, Job};
use punctual::domain::key::KeyRecord;
use punctual::domain::schedule::Schedule;
use punctual::domain::shard::{Epoch, ShardId};
use punctual::domain::ticket::Ticket;
use punctual::domain::{AccountId, JobId, KeyId, ScheduleId, Timestamp};
use punctual::store::{
    Account, AccountStore, AuditPage, AuditQuery, AuditStore, Cancelled, Candidate, Change,
    Changed, Claim, ClaimStore, Claims, Committed, Completion, DueEntry, ExpiredClaim, Fence,
    Fired, Firing, FiringStore, IdempotencyStore, JobPage, JobQuery, JobStore, KnownKey, NewJob,
    NewKey, NewSchedule, Renewed, Reservation, Reserved, Result, Retried, Rotated, Rotation,
    SchedulePage, ScheduleQuery, ScheduleStore, ShardRecord, SharedStore, SkipPage, SkipQuery,
    StoreError, StoreErrorKind, Upkeep, UpkeepStore, Usage, Write,
};

use crate::gate::Gate;

/// A store whose operations may meet faults.
pub struct GatedStore {
    pub inner: SharedStore,
    pub gate: Arc<Gate>,
}

/// Implements a part of the contract by passing each method through the gate.
macro_rules! gated {
    ($contract:ident: $(
        fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $output:ty;
    )*) => {
        #[async_trait]
        impl $contract for GatedStore {
            $(async fn $name(&self $(, $argument: $type)*) -> Result<$output> {
                let failed = |fault| {
                    StoreError::new(stringify!($name), StoreErrorKind::Unavailable, fault)
                };
                self.gate.pass(stringify!($name), self.inner.$name($($argument),*), failed).await
            })*
        }
    };
}

gated! { AccountStore:
    fn create_account(&self, write: &Write, name: &str) -> bool;
    fn accounts(&self) -> Vec<Account>;
    fn account(&self, id: AccountId) -> Option<Account>;
    fn usage(&self, id: AccountId, now: Timestamp) -> Usage;
    fn create_key(&self, write: &Write, key: &NewKey) -> bool;
    fn keys(&self, account: AccountId) -> Vec<KeyRecord>;
    fn rotate_key(&self, write: &Write, rotation: &Rotation) -> Rotated;
    fn revoke_key(&self, write: &Write, id: KeyId) -> bool;
    fn key(&self, id: KeyId) -> Option<KnownKey>;
}

gated! { ScheduleStore:
    fn create_schedules(&self, write: &Write, schedules: &[NewSchedule]) -> ();
    fn schedule(&self, account: AccountId, id: ScheduleId) -> Option<Schedule>;
    fn schedules(&self, account: AccountId, query: &ScheduleQuery) -> SchedulePage;
    fn change_schedule(&self, write: &Write, id: ScheduleId, change: &Change) -> Changed;
    fn delete_schedule(&self, write: &Write, id: ScheduleId) -> bool;
    fn skips(&self, account: AccountId, id: ScheduleId, query: &SkipQuery) -> SkipPage;
}

gated! { JobStore:
    fn create_job(&self, write: &Write, job: &NewJob) -> Option<Ticket>;
    fn retry_job(&self, write: &Write, of: JobId, id: JobId) -> Retried;
    fn cancel_job(&self, write: &Write, id: JobId) -> Cancelled;
    fn job(&self, account: AccountId, id: JobId) -> Option<(Job, Vec<Attempt>)>;
    fn jobs(&self, account: AccountId, query: &JobQuery) -> JobPage;
}

gated! { FiringStore:
    fn set_up_shards(&self, wanted: u16) -> u16;
    fn installation(&self, proposed: u32) -> u32;
    fn raise_epoch(&self, shard: ShardId, replica: &str, now: Timestamp) -> Epoch;
    fn next_ticks(&self, shard: ShardId, after: Option<ScheduleId>, limit: u32) -> Vec<DueEntry>;
    fn candidates(&self, shard: ShardId, ids: &[ScheduleId]) -> Vec<Candidate>;
    fn fire(&self, fence: Fence, now: Timestamp, firings: &[Firing]) -> Fired;
}

gated! { ClaimStore:
    fn claim(&self, claim: &Claim, jobs: &[JobId]) -> Claims;
    fn renew(&self, claim: &Claim, jobs: &[(JobId, u8)]) -> Renewed;
    fn cancelled(&self) -> Vec<JobId>;
    fn commit(&self, now: Timestamp, completions: &[Completion]) -> Committed;
    fn late(&self, before: Timestamp, after: Option<(Timestamp, JobId)>, limit: u32) -> Vec<Ticket>;
    fn expired(&self, before: Timestamp, limit: u32) -> Vec<ExpiredClaim>;
}

gated! { UpkeepStore:
    fn ping(&self) -> ();
    fn time(&self) -> Option<Timestamp>;
    fn prepare(&self, now: Timestamp) -> ();
    fn prune(&self, before: Timestamp, limit: u32) -> Upkeep;
    fn shard_records(&self, now: Timestamp) -> Vec<ShardRecord>;
    fn unfinished(&self, cap: u32) -> u64;
}

gated! { AuditStore:
    fn audit_log(&self, account: AccountId, query: &AuditQuery) -> AuditPage;
    fn prune_audit_log(&self, before: Timestamp, limit: u32) -> u64;
}

gated! { IdempotencyStore:
    fn reserve(&self, account: AccountId, now: Timestamp, reservation: &Reservation) -> Reserved;
    fn keep_answer(&self, account: AccountId, once: Once, answer: &str) -> ();
    fn release(&self, account: AccountId, once: Once) -> ();
    fn prune_answers(&self, before: Timestamp, limit: u32) -> u64;
}
