//! Claims: the operations of executors and the job rescuer. Their batches span all accounts.

use std::collections::HashMap;
use std::time::Duration;

use crate::domain::job::{JobStatus, Trigger};
use crate::domain::outcome::{ErrorCode, Exchange, Failure, Response};
use crate::domain::schedule::Definition;
use crate::domain::shard::ShardId;
use crate::domain::signing::SigningSecret;
use crate::domain::ticket::Ticket;
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp, VersionId};
use crate::runtime::measured;
use crate::store::Result;
use crate::telemetry::metrics::{EVENTS_RAISED, FinalStatus, JOBS_FAILED, JOBS_FINISHED, RETRIES};
use crate::telemetry::traces::{JobSpan, JobSubject};

/// The id of one process of an executor. It is drawn at random at the start of the process, so that
/// the claims of an earlier process are never mistaken for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutorId(pub u128);

/// A request to run jobs. The claims end with the lease of the executor ([`ClaimStore::renew`]).
#[derive(Clone, Copy, Debug)]
pub struct ClaimRequest {
    /// The executor that claims.
    pub executor: ExecutorId,
    /// The present time, at which the attempts begin.
    pub now: Timestamp,
}

/// A claimed job. Only this executor may send its next attempt, until the claim ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedJob {
    /// The job.
    pub job: JobId,
    /// The account that owns it.
    pub account: AccountId,
    /// Its schedule.
    pub schedule: ScheduleId,
    /// The schedule's shard.
    pub shard: ShardId,
    /// The version that the job was made with.
    pub version: VersionId,
    /// The reason why the job was made.
    pub trigger: Trigger,
    /// `true` if the job was held until another job of its schedule had ended, and has had no
    /// attempt before. A recall always returns `false`.
    pub was_held: bool,
    /// The number of the attempt that is now recorded. The first one is 1.
    pub attempt: u8,
    /// The maximum number of attempts.
    pub max_attempts: u8,
    /// The start of this attempt.
    pub started_at: Timestamp,
    /// The start of the first attempt.
    pub first_started_at: Timestamp,
    /// The request to send.
    pub definition: Definition,
    /// The account's secrets that sign at the time of the claim, newest first. Empty unless
    /// requests of the definition are signed.
    pub signing_secrets: Vec<SigningSecret>,
}

impl ClaimedJob {
    /// Returns the data that the end of the attempt passes back to the store.
    pub fn run(&self) -> ClaimedRun {
        let Self { schedule, shard, max_attempts, started_at, first_started_at, .. } = *self;
        ClaimedRun { schedule, shard, max_attempts, started_at, first_started_at }
    }
}

/// The data of a claimed job that does not change while the claim lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimedRun {
    /// The job's schedule.
    pub schedule: ScheduleId,
    /// The schedule's shard.
    pub shard: ShardId,
    /// The maximum number of attempts.
    pub max_attempts: u8,
    /// The start of this attempt.
    pub started_at: Timestamp,
    /// The start of the first attempt.
    pub first_started_at: Timestamp,
}

/// A claimed job whose attempt cannot be sent, because its stored data cannot be read. The attempt
/// is recorded like any other. The executor that claimed the job ends it with the failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableJob {
    /// The job.
    pub job: JobId,
    /// The number of the attempt that is now recorded.
    pub attempt: u8,
    /// The reason for the failure. It quotes nothing of the stored data.
    pub failure: Failure,
}

/// The result of claiming.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimedJobs {
    /// The jobs to run, in the order of the request.
    pub taken: Vec<ClaimedJob>,
    /// The claimed jobs that cannot run.
    pub unreadable: Vec<UnreadableJob>,
}

/// The jobs that executors are to abort, whichever executor runs them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobsToAbort {
    /// The running jobs that users have cancelled.
    pub jobs: Vec<JobId>,
    /// The accounts that are being deleted. All their running jobs are aborted. The rows of these
    /// jobs may already be gone.
    pub accounts: Vec<AccountId>,
}

/// The effect of the end of an attempt on its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptEnd {
    /// The job is SUCCESS.
    Succeeded,
    /// The job is FAILED.
    Failed(Failure),
    /// The job is PENDING again until this time. If the job was cancelled or its schedule was
    /// deleted meanwhile, it ends FAILED with `CANCELLED` instead. If it has no attempt left, it
    /// ends FAILED.
    Retry(Failure, Timestamp),
}

impl AttemptEnd {
    /// Returns the end of a failed attempt. Its job has another attempt at `retry_at`, if present.
    pub fn failed(failure: Failure, retry_at: Option<Timestamp>) -> Self {
        match retry_at {
            Some(at) => Self::Retry(failure, at),
            None => Self::Failed(failure),
        }
    }

    /// Returns the error code of the attempt if it failed.
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
    /// The number of the attempt that ended.
    pub attempt: u8,
    /// The executor whose claim it ran under.
    pub executor: ExecutorId,
    /// The data of the claim, if it is known. Then the store need not read it again.
    pub run: Option<ClaimedRun>,
    /// The end of the attempt.
    pub completed_at: Timestamp,
    /// The exchange with the target. Absent: the executor was lost or the attempt was aborted.
    pub exchange: Option<Exchange>,
    /// The effect on the job.
    pub end: AttemptEnd,
}

impl Completion {
    /// Returns the response, if it arrived completely.
    pub(in crate::store) fn response(&self) -> Option<&Response> {
        self.exchange.as_ref()?.result.as_ref().ok()
    }
}

/// The result of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionResult {
    /// It took effect. The job now has this status.
    Applied(JobStatus),
    /// The claim was lost: another executor has the job, or the job is final. Nothing changed.
    Lost,
    /// Another transaction locks the row of the job or of its schedule for longer than the service
    /// itself ever does, for example an operator's. Nothing changed. Retry when the row is free.
    Busy,
}

/// The result of committing a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The result of each completion, in order.
    pub results: Vec<CompletionResult>,
    /// The tickets of retries and of held jobs that may start now, for the queue.
    pub tickets: Vec<Ticket>,
    /// The number of events that were raised for the notifier.
    pub events: u64,
    /// The positions of the completions that made their jobs fail for good, with the stored error
    /// codes. If the job was cancelled meanwhile, this code differs from that of its attempt.
    pub failed: Vec<(usize, ErrorCode)>,
}

impl Committed {
    /// Counts the results of the jobs in the metrics.
    pub fn count(&self) {
        let with = |wanted| {
            self.results
                .iter()
                .filter(|result| **result == CompletionResult::Applied(wanted))
                .count()
        };
        JOBS_FINISHED.with(FinalStatus::Success).add(with(JobStatus::Success) as u64);
        JOBS_FINISHED.with(FinalStatus::Failed).add(with(JobStatus::Failed) as u64);
        for (_, code) in &self.failed {
            JOBS_FAILED.with(*code).add(1);
        }
        RETRIES.add(with(JobStatus::Pending) as u64);
        EVENTS_RAISED.add(self.events);
    }

    /// Records the spans of the jobs that are final now. `completions` are those that were
    /// committed.
    pub fn trace(&self, completions: &[Completion]) {
        let errors: HashMap<usize, ErrorCode> = self.failed.iter().copied().collect();
        for (position, (completion, result)) in completions.iter().zip(&self.results).enumerate() {
            let CompletionResult::Applied(status @ (JobStatus::Success | JobStatus::Failed)) =
                *result
            else {
                continue;
            };
            let schedule = completion.run.map(|run| run.schedule);
            let span = JobSpan {
                subject: JobSubject { job: completion.job, schedule, account: None },
                attempts: completion.attempt,
                status,
                error: errors.get(&position).copied(),
                ended_at: completion.completed_at,
            };
            span.end();
        }
    }
}

/// An attempt that is recorded as running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedAttempt {
    /// The job.
    pub job: JobId,
    /// The number of the running attempt.
    pub attempt: u8,
    /// The maximum number of attempts.
    pub max_attempts: u8,
    /// The executor that claimed the job.
    pub executor: ExecutorId,
    /// The time at which the executor's lease ends or ended.
    pub until: Timestamp,
}

/// The maximum time after a failed call until it takes effect, if it does. A statement whose
/// connection was cut may still be running on the server.
pub const LATEST_EFFECT: Duration = Duration::from_secs(6);

/// The time for which a lease without running jobs is kept after its end. By then, all calls that
/// the executor made under the lease have taken effect.
pub(in crate::store) const LEASE_KEPT: Duration = Duration::from_mins(1);

/// A position before all late jobs.
pub(in crate::store) const FIRST: (Timestamp, JobId) =
    (Timestamp::from_millis(i64::MIN), JobId::from_bytes([0; 16]));

/// The maximum number of late jobs per account that [`ClaimStore::late_of_each`] returns.
pub const LATE_OF_EACH: u32 = 20;
/// The number of accounts per page of that call.
pub(in crate::store) const ACCOUNTS_AT_ONCE: u32 = 500;

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Claims: the operations of executors and the job rescuer.
    pub trait ClaimStore: Send + Sync {
        /// Claims those of the jobs that are PENDING, may start by `now` and have an attempt left:
        /// they become RUNNING, and their attempt is recorded. All others are left out (JOB-1). So
        /// are duplicates in the list and jobs whose row is locked: these stay among the
        /// [`late`](Self::late) ones. An executor without a lease claims nothing.
        async fn claim(&self, claim: &ClaimRequest, jobs: &[JobId]) -> Result<ClaimedJobs>;

        /// Returns those of the jobs that this claim, or another claim of the same executor at the
        /// same time, has claimed, as long as the attempts run. It claims nothing itself. A caller
        /// that lost the response of [`claim`](Self::claim) or
        /// [`fire_and_claim`](crate::store::FiringStore::fire_and_claim) uses it, so that no
        /// attempt is lost. The lost call may take effect as late as [`LATEST_EFFECT`] after its
        /// failure.
        async fn recall(&self, claim: &ClaimRequest, jobs: &[JobId]) -> Result<ClaimedJobs>;

        /// Creates or extends the lease of an executor, and with it all its claims, to `until`. It
        /// never shortens a lease. Removes leases that ended long ago.
        async fn renew(&self, executor: ExecutorId, until: Timestamp, now: Timestamp) -> Result<()>;

        /// Returns the jobs that executors are to abort.
        async fn aborts(&self) -> Result<JobsToAbort>;

        /// Commits the ends of attempts in one transaction: attempt, job, schedule state (last run,
        /// last status, streak, active and held job), the hours of the accounts, and the events
        /// that preferences ask for. A run that began before the recorded last run does not replace
        /// it. A row that cannot be written fails the whole batch with kind `Rejected`. A row that
        /// another transaction locks for longer than the service ever does is passed over
        /// ([`CompletionResult::Busy`]), together with all rows that must be written with it. The
        /// batch waits for locked rows once, for a fraction of a second, however many they are.
        async fn commit(&self, now: Timestamp, completions: &[Completion]) -> Result<Committed>;

        /// Returns tickets of PENDING jobs that could have started before `before`, in the order of
        /// start and id, after the position `after`; at most `limit`. Rows that cannot be read are
        /// left out, here, in [`expired`](Self::expired) and in [`claims_of`](Self::claims_of). So
        /// a page that is not full need not be the last one, but an empty page is.
        async fn late(
            &self,
            before: Timestamp,
            after: Option<(Timestamp, JobId)>,
            limit: u32,
        ) -> Result<Vec<Ticket>>;

        /// Returns tickets of such late jobs for a page of accounts after `after`: for each
        /// account, those that could have started first, at most [`LATE_OF_EACH`]. Also returns the
        /// account after which the next page begins, if there is one.
        async fn late_of_each(
            &self,
            before: Timestamp,
            after: Option<AccountId>,
        ) -> Result<(Vec<Ticket>, Option<AccountId>)>;

        /// Returns the claims whose executors' leases ended before `before`, the oldest lease
        /// first; at most `limit`.
        async fn expired(&self, before: Timestamp, limit: u32) -> Result<Vec<RecordedAttempt>>;

        /// Returns the claims of an executor whose attempts began before `before`.
        async fn claims_of(&self, executor: ExecutorId, before: Timestamp) -> Result<Vec<RecordedAttempt>>;
    }
}

/// Returns the account after which the next page begins, if this page is full.
pub(in crate::store) fn next_page(accounts: &[AccountId]) -> Option<AccountId> {
    accounts.last().filter(|_| accounts.len() == ACCOUNTS_AT_ONCE as usize).copied()
}
