//! Claims: what executors and the sweep do. Batches over all accounts.

use std::collections::HashMap;
use std::time::Duration;

use super::Result;
use crate::domain::job::{JobStatus, Trigger};
use crate::domain::outcome::{ErrorCode, Exchange, Failure, Response};
use crate::domain::schedule::Definition;
use crate::domain::shard::ShardId;
use crate::domain::signing::SigningSecret;
use crate::domain::ticket::Ticket;
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp, VersionId};
use crate::runtime::measured;
use crate::telemetry::metrics::{EVENTS_RAISED, FinalStatus, JOBS_FAILED, JOBS_FINISHED, RETRIES};
use crate::telemetry::traces::{JobSpan, Subject};

/// One run of an executor: drawn at random when the process starts, so that no claim of an
/// earlier process is taken for one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutorId(pub u128);

/// A wish to run jobs. The claims end with the lease of the executor ([`ClaimStore::renew`]).
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// Who claims.
    pub executor: ExecutorId,
    /// The present instant: when the attempts begin.
    pub now: Timestamp,
}

/// A job whose next attempt this executor may send, alone, until the claim ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The job.
    pub job: JobId,
    /// Whose it is.
    pub account: AccountId,
    /// Of which schedule.
    pub schedule: ScheduleId,
    /// The schedule's shard.
    pub shard: ShardId,
    /// The version it was made with.
    pub version: VersionId,
    /// What made it.
    pub trigger: Trigger,
    /// Whether it was held until another job of its schedule had ended, and has had no attempt before.
    /// A recall does not tell.
    pub was_held: bool,
    /// The attempt that is now recorded: 1 for the first.
    pub attempt: u8,
    /// How many there can be.
    pub max_attempts: u8,
    /// When it began.
    pub started_at: Timestamp,
    /// When the first one began.
    pub first_started_at: Timestamp,
    /// What to send.
    pub definition: Definition,
    /// What to sign it with, newest first: the account's secrets that sign at the instant of the
    /// claim. Empty unless requests of the definition are signed.
    pub signing_secrets: Vec<SigningSecret>,
}

impl Claimed {
    /// What is to be handed back with the end of the attempt.
    pub fn run(&self) -> Run {
        let Self { schedule, shard, max_attempts, started_at, first_started_at, .. } = *self;
        Run { schedule, shard, max_attempts, started_at, first_started_at }
    }
}

/// What a claim has told of a job that nobody changes while the claim lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Of which schedule it is.
    pub schedule: ScheduleId,
    /// The schedule's shard.
    pub shard: ShardId,
    /// How many attempts there can be.
    pub max_attempts: u8,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// When the first one began.
    pub first_started_at: Timestamp,
}

/// A claimed job whose attempt cannot be sent, because what is stored of it cannot be read. Its
/// attempt is recorded as any other's; whoever claimed it ends it with the failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The job.
    pub job: JobId,
    /// The attempt that is now recorded.
    pub attempt: u8,
    /// Why it fails. Quotes nothing of what is stored.
    pub failure: Failure,
}

/// What claiming has brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The jobs to run, in the order in which they were asked for.
    pub taken: Vec<Claimed>,
    /// Those that cannot be.
    pub unreadable: Vec<Unreadable>,
}

/// What executors are to abort, whoever runs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aborts {
    /// The running jobs that users have cancelled.
    pub jobs: Vec<JobId>,
    /// The accounts that were deleted and are not gone yet: their running jobs, of which the rows may
    /// be removed already.
    pub accounts: Vec<AccountId>,
}

/// How an attempt ends for its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// SUCCESS.
    Succeeded,
    /// FAILED.
    Failed(Failure),
    /// PENDING again until the instant. A job that was cancelled, or whose schedule was deleted,
    /// meanwhile ends FAILED `CANCELLED` instead; one that has no attempt left ends FAILED.
    Retry(Failure, Timestamp),
}

impl End {
    /// The end of an attempt whose job may have another one at `retry_at`.
    pub fn failed(failure: Failure, retry_at: Option<Timestamp>) -> Self {
        match retry_at {
            Some(at) => Self::Retry(failure, at),
            None => Self::Failed(failure),
        }
    }

    /// Why the attempt failed, if it did.
    pub fn error(&self) -> Option<ErrorCode> {
        match self {
            Self::Succeeded => None,
            Self::Failed(failure) | Self::Retry(failure, _) => Some(failure.code),
        }
    }
}

/// The end of an attempt. It takes effect only while the job is RUNNING that attempt under this
/// executor's claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The job.
    pub job: JobId,
    /// The attempt that ended.
    pub attempt: u8,
    /// Whose claim it ran under.
    pub executor: ExecutorId,
    /// What the claim has told, if that is known: the store need not read it again.
    pub run: Option<Run>,
    /// When it ended.
    pub completed_at: Timestamp,
    /// What came back; absent if the executor was lost or the attempt aborted.
    pub exchange: Option<Exchange>,
    /// What that means.
    pub end: End,
}

impl Completion {
    /// The response, if one came back whole.
    pub(in crate::store) fn response(&self) -> Option<&Response> {
        self.exchange.as_ref()?.result.as_ref().ok()
    }
}

/// What became of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It took effect; the job now has this status.
    Applied(JobStatus),
    /// The claim was lost: somebody else has the job, or it is final. Nothing changed.
    Lost,
    /// Somebody else holds the job's row or its schedule's for longer than anybody of the service
    /// does: an operator, say. Nothing changed; to be tried again when they are free.
    Busy,
}

/// What committing a batch has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// One for each completion, in order.
    pub fates: Vec<Fate>,
    /// Tickets of retries and of held jobs that may start now, for the queue.
    pub tickets: Vec<Ticket>,
    /// How many events were raised, for the notifier.
    pub events: u64,
    /// Which completions made their jobs fail for good, and the error codes that were stored: of a job
    /// that was cancelled meanwhile it is another than its attempt's.
    pub failed: Vec<(usize, ErrorCode)>,
}

impl Committed {
    /// Counts in the metrics what became of the jobs.
    pub fn count(&self) {
        let with =
            |wanted| self.fates.iter().filter(|fate| **fate == Fate::Applied(wanted)).count();
        JOBS_FINISHED.with(FinalStatus::Success).add(with(JobStatus::Success) as u64);
        JOBS_FINISHED.with(FinalStatus::Failed).add(with(JobStatus::Failed) as u64);
        for (_, code) in &self.failed {
            JOBS_FAILED.with(*code).add(1);
        }
        RETRIES.add(with(JobStatus::Pending) as u64);
        EVENTS_RAISED.add(self.events);
    }

    /// Hands in the spans of the jobs that are final now; `completions` are those that were committed.
    pub fn trace(&self, completions: &[Completion]) {
        let errors: HashMap<usize, ErrorCode> = self.failed.iter().copied().collect();
        for (place, (completion, fate)) in completions.iter().zip(&self.fates).enumerate() {
            let Fate::Applied(status @ (JobStatus::Success | JobStatus::Failed)) = *fate else {
                continue;
            };
            let schedule = completion.run.map(|run| run.schedule);
            let span = JobSpan {
                subject: Subject { job: completion.job, schedule, account: None },
                attempts: completion.attempt,
                status,
                error: errors.get(&place).copied(),
                ended_at: completion.completed_at,
            };
            span.end();
        }
    }
}

/// An attempt that is recorded as running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldClaim {
    /// The job.
    pub job: JobId,
    /// The attempt that was under way.
    pub attempt: u8,
    /// How many there can be.
    pub max_attempts: u8,
    /// The executor that claimed it.
    pub executor: ExecutorId,
    /// When the executor's lease ends, or ended.
    pub until: Timestamp,
}

/// How long after a call has failed it takes effect at the latest, if it does: a statement whose
/// connection is cut may still be running at the server.
pub const LATEST_EFFECT: Duration = Duration::from_secs(6);

/// How long after its end a lease is removed, if no job runs under it: what an executor has asked for
/// while it lasted has taken effect by then.
pub(in crate::store) const LEASE_KEPT: Duration = Duration::from_mins(1);

/// Before all late jobs.
pub(in crate::store) const FIRST: (Timestamp, JobId) =
    (Timestamp::from_millis(i64::MIN), JobId::from_bytes([0; 16]));

/// How many late jobs of an account [`ClaimStore::late_of_each`] tells of.
pub const LATE_OF_EACH: u32 = 20;
/// Of how many accounts it tells at once.
pub(in crate::store) const ACCOUNTS_AT_ONCE: u32 = 500;

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Claims: what executors and the sweep do.
    pub trait ClaimStore: Send + Sync {
        /// Claims those of the jobs that are PENDING, may start by `now` and have an attempt left:
        /// they become RUNNING, their attempt is recorded. Others are left out (JOB-1), and so are the
        /// second mention of a job and one whose row somebody else holds just now: it stays among the
        /// [`late`](Self::late) ones. Without a lease of the executor none is claimed.
        async fn claim(&self, claim: &Claim, jobs: &[JobId]) -> Result<Claims>;

        /// What this claim has brought of the jobs, or another of the same executor at the same instant,
        /// as long as that runs; it takes nothing. Who
        /// has lost the answer of [`claim`](Self::claim) or
        /// [`fire_and_claim`](super::FiringStore::fire_and_claim) asks so, and loses no attempt. An
        /// effect may come as late as [`LATEST_EFFECT`] after the failure.
        async fn recall(&self, claim: &Claim, jobs: &[JobId]) -> Result<Claims>;

        /// Begins the lease of an executor, or extends it, and with it all its claims: until `until`, but
        /// never less than before. Removes leases that have been over for long.
        async fn renew(&self, executor: ExecutorId, until: Timestamp, now: Timestamp) -> Result<()>;

        /// What executors are to abort.
        async fn aborts(&self) -> Result<Aborts>;

        /// Commits ends of attempts in one transaction: attempt, job, schedule state (last run, last
        /// status, streak, active and held job), and the events that preferences want. A run that began before the last one known does not
        /// become the last. A row that cannot be written fails the whole batch with kind `Rejected`;
        /// one that another transaction holds for longer than the service ever does is passed over
        /// ([`Fate::Busy`]), together with all it is to be written with. The batch waits for held rows
        /// once, for a fraction of a second, however many they are.
        async fn commit(&self, now: Timestamp, completions: &[Completion]) -> Result<Committed>;

        /// Tickets of PENDING jobs that could have started before `before`, in the order of start and
        /// id, beginning after those of `after`; at most `limit`. Rows that cannot be read are left out,
        /// here, in [`expired`](Self::expired) and in [`claims_of`](Self::claims_of): so a page that is not full need not be the last, but
        /// an empty one is.
        async fn late(
            &self,
            before: Timestamp,
            after: Option<(Timestamp, JobId)>,
            limit: u32,
        ) -> Result<Vec<Ticket>>;

        /// Tickets of the same jobs, of each account those that could have started first, at most
        /// [`LATE_OF_EACH`]: of the accounts after `after`, a page of them. Beside them, after which
        /// account the next page begins; absent if there is none.
        async fn late_of_each(
            &self,
            before: Timestamp,
            after: Option<AccountId>,
        ) -> Result<(Vec<Ticket>, Option<AccountId>)>;

        /// Claims whose executors' leases ended before `before`, the oldest lease first, at most `limit`.
        async fn expired(&self, before: Timestamp, limit: u32) -> Result<Vec<HeldClaim>>;

        /// Claims of an executor whose attempts began before `before`.
        async fn claims_of(&self, executor: ExecutorId, before: Timestamp) -> Result<Vec<HeldClaim>>;
    }
}

/// After which account the next page begins, if this one is full.
pub(in crate::store) fn next_page(accounts: &[AccountId]) -> Option<AccountId> {
    accounts.last().filter(|_| accounts.len() == ACCOUNTS_AT_ONCE as usize).copied()
}
