//! A store whose calls meet faults, and whose caller makes them again.
//!
//! Reads and most writes can be repeated: the second answer is as good as the first. What makes
//! something of a given id says that it is there, and what asks for a given state says that it is no
//! longer so: then the caller knows, or reads, that the first call took place.

use std::collections::BTreeSet;
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
    Changed, Claim, ClaimStore, Claims, Committed, Completion, DueEntry, ExpiredClaim, Fate, Fence,
    Fired, Firing, FiringStore, IdempotencyStore, JobPage, JobQuery, JobStore, KnownKey, NewJob,
    NewKey, NewSchedule, Renewed, Reservation, Reserved, Result, Retried, Rotated, Rotation,
    SchedulePage, ScheduleQuery, ScheduleStore, ShardRecord, SharedStore, SkipPage, SkipQuery,
    StoreErrorKind, Upkeep, UpkeepStore, Usage, Write,
};

use crate::conformance::faults::{Faults, done_once};

/// A store whose calls meet faults.
pub struct FlakyStore {
    pub inner: SharedStore,
    pub faults: Arc<Faults>,
}

/// Implements a part of the contract. A method that can be called again without more ends with
/// `;`, another one with what it makes of a lost answer and the one to the repeated call.
macro_rules! flaky {
    ($contract:ident: $(
        fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $output:ty
        $(=> $settle:expr)?;
    )*) => {
        #[async_trait]
        impl $contract for FlakyStore {
            $(async fn $name(&self $(, $argument: $type)*) -> Result<$output> {
                let call = || self.inner.$name($($argument),*);
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

/// What two calls have done that were both answered.
fn both<T>(lost: Result<T>, again: Result<T>, sum: impl FnOnce(T, T) -> T) -> Result<T> {
    match (lost, again) {
        (Ok(lost), Ok(again)) => Ok(sum(lost, again)),
        (_, again) => again,
    }
}

/// What two calls have said of different things: none of them was done twice.
fn each_once<T, K: Ord>(mut first: Vec<T>, then: Vec<T>, of: impl Fn(&T) -> K) -> Vec<T> {
    let known: BTreeSet<K> = first.iter().map(&of).collect();
    assert!(then.iter().all(|one| !known.contains(&of(one))), "said of the same again");
    first.extend(then);
    first
}

/// Schedules that somebody else held may be fired by the repeated call.
fn fired(lost: Fired, again: Fired) -> Fired {
    match (lost, again) {
        (
            Fired::Done { tickets, advanced, stale, .. },
            Fired::Done { tickets: more, advanced: further, busy, .. },
        ) => Fired::Done {
            tickets: each_once(tickets, more, |ticket| ticket.job),
            advanced: each_once(advanced, further, |(schedule, _)| *schedule),
            stale,
            busy,
        },
        (Fired::Fenced, again) => again,
        (lost, Fired::Fenced) => lost,
    }
}

/// What was claimed is not claimed again: `expired` finds it if nobody runs it.
fn claimed(lost: Claims, again: Claims) -> Claims {
    Claims {
        taken: each_once(lost.taken, again.taken, |claimed| claimed.job),
        unreadable: each_once(lost.unreadable, again.unreadable, |claimed| claimed.job),
    }
}

/// Tickets are not told again: `late` finds them.
fn committed(lost: Committed, again: Committed) -> Committed {
    let fate = |(lost, again)| match lost {
        Fate::Applied(_) => {
            assert_eq!(again, Fate::Lost, "it took effect already");
            lost
        }
        Fate::Lost | Fate::Busy => again,
    };
    Committed {
        fates: lost.fates.into_iter().zip(again.fates).map(fate).collect(),
        tickets: each_once(lost.tickets, again.tickets, |ticket| ticket.job),
    }
}

fn is_refused<T>(again: &Result<T>) -> bool {
    again.as_ref().is_err_and(|error| error.kind() == StoreErrorKind::Rejected)
}

flaky! { AccountStore:
    fn create_account(&self, write: &Write, name: &str) -> bool
        => |lost, again| done_once(lost, again, |made| *made, |_, again| matches!(again, Ok(false)));
    fn accounts(&self) -> Vec<Account>;
    fn account(&self, id: AccountId) -> Option<Account>;
    fn usage(&self, id: AccountId, now: Timestamp) -> Usage;
    fn create_key(&self, write: &Write, key: &NewKey) -> bool
        => |lost, again| done_once(lost, again, |made| *made, |_, again| is_refused(again));
    fn keys(&self, account: AccountId) -> Vec<KeyRecord>;
    fn rotate_key(&self, write: &Write, rotation: &Rotation) -> Rotated
        => |lost, again| done_once(lost, again, |rotated| *rotated == Rotated::Done, |_, again| {
            // There may be as many keys as there can be by then.
            is_refused(again) || matches!(again, Ok(Rotated::TooMany))
        });
    fn revoke_key(&self, write: &Write, id: KeyId) -> bool;
    fn key(&self, id: KeyId) -> Option<KnownKey>;
}

flaky! { ScheduleStore:
    fn create_schedules(&self, write: &Write, schedules: &[NewSchedule]) -> ()
        => |lost, again| {
            done_once(lost, again, |()| !schedules.is_empty(), |(), again| is_refused(again))
        };
    fn schedule(&self, account: AccountId, id: ScheduleId) -> Option<Schedule>;
    fn schedules(&self, account: AccountId, query: &ScheduleQuery) -> SchedulePage;
    fn change_schedule(&self, write: &Write, id: ScheduleId, change: &Change) -> Changed
        => |lost, again| {
            let done = |changed: &Changed| matches!(changed, Changed::Done(_));
            done_once(lost, again, done, |_, again| matches!(again, Ok(Changed::Stale)))
        };
    fn delete_schedule(&self, write: &Write, id: ScheduleId) -> bool
        => |lost, again| done_once(lost, again, |gone| *gone, |_, again| matches!(again, Ok(false)));
    fn skips(&self, account: AccountId, id: ScheduleId, query: &SkipQuery) -> SkipPage;
}

flaky! { JobStore:
    fn create_job(&self, write: &Write, job: &NewJob) -> Option<Ticket>
        // The schedule may have been deleted in between.
        => |lost, again| done_once(lost, again, Option::is_some, |_, again| {
            is_refused(again) || matches!(again, Ok(None))
        });
    fn retry_job(&self, write: &Write, of: JobId, id: JobId) -> Retried
        => |lost, again| {
            let done = |retried: &Retried| matches!(retried, Retried::Created(_));
            done_once(lost, again, done, |_, again| is_refused(again))
        };
    fn cancel_job(&self, write: &Write, id: JobId) -> Cancelled
        => |lost, again| {
            let done = |cancelled: &Cancelled| matches!(cancelled, Cancelled::Done(_));
            done_once(lost, again, done, |_, again| match again {
                // Of a running one it is said as often as one asks.
                Ok(Cancelled::Done(tickets)) => tickets.is_empty(),
                again => matches!(again, Ok(Cancelled::Finished)),
            })
        };
    fn job(&self, account: AccountId, id: JobId) -> Option<(Job, Vec<Attempt>)>;
    fn jobs(&self, account: AccountId, query: &JobQuery) -> JobPage;
}

flaky! { FiringStore:
    fn set_up_shards(&self, wanted: u16) -> u16;
    fn installation(&self, proposed: u32) -> u32;
    // It is raised again: the caller leads by the higher one.
    fn raise_epoch(&self, shard: ShardId, replica: &str, now: Timestamp) -> Epoch;
    fn next_ticks(&self, shard: ShardId, after: Option<ScheduleId>, limit: u32) -> Vec<DueEntry>;
    fn candidates(&self, shard: ShardId, ids: &[ScheduleId]) -> Vec<Candidate>;
    fn fire(&self, fence: Fence, now: Timestamp, firings: &[Firing]) -> Fired
        => |lost, again| both(lost, again, fired);
}

flaky! { ClaimStore:
    fn claim(&self, claim: &Claim, jobs: &[JobId]) -> Claims
        => |lost, again| both(lost, again, claimed);
    fn renew(&self, claim: &Claim, jobs: &[(JobId, u8)]) -> Renewed;
    fn cancelled(&self) -> Vec<JobId>;
    fn commit(&self, now: Timestamp, completions: &[Completion]) -> Committed
        => |lost, again| both(lost, again, committed);
    fn late(&self, before: Timestamp, after: Option<(Timestamp, JobId)>, limit: u32) -> Vec<Ticket>;
    fn expired(&self, before: Timestamp, limit: u32) -> Vec<ExpiredClaim>;
}

flaky! { UpkeepStore:
    fn ping(&self) -> ();
    fn time(&self) -> Option<Timestamp>;
    fn prepare(&self, now: Timestamp) -> ();
    fn prune(&self, before: Timestamp, limit: u32) -> Upkeep
        // The next round, as it would have come anyway.
        => |lost, again| both(lost, again, |lost, again: Upkeep| Upkeep {
            jobs: lost.jobs + again.jobs,
            skips: lost.skips + again.skips,
            versions: lost.versions + again.versions,
        });
    fn shard_records(&self, now: Timestamp) -> Vec<ShardRecord>;
    fn unfinished(&self, cap: u32) -> u64;
}

flaky! { AuditStore:
    fn audit_log(&self, account: AccountId, query: &AuditQuery) -> AuditPage;
    fn prune_audit_log(&self, before: Timestamp, limit: u32) -> u64
        // The next round, as it would have come anyway.
        => |lost, again| both(lost, again, |lost, again| lost + again);
}

flaky! { IdempotencyStore:
    fn reserve(&self, account: AccountId, now: Timestamp, reservation: &Reservation) -> Reserved;
    fn keep_answer(&self, account: AccountId, once: Once, answer: &str) -> ();
    fn release(&self, account: AccountId, once: Once) -> ();
    fn prune_answers(&self, before: Timestamp, limit: u32) -> u64
        // The next round, as it would have come anyway.
        => |lost, again| both(lost, again, |lost, again| lost + again);
}
