//! Jobs: creating, reading and cancelling them for users.

use crate::domain::job::{Attempt, Job, JobStatus, Trigger};
use crate::domain::ticket::Ticket;
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp};
use crate::runtime::measured;
use crate::store::{Result, UsedUp, WriteContext};

/// A job that a user asks for. It runs at once, with the schedule's current version. Its
/// `scheduled_run_at` is the time in its id.
#[derive(Clone, Copy, Debug)]
pub struct NewJob {
    /// The id, made at the time of the call.
    pub id: JobId,
    /// The schedule.
    pub schedule: ScheduleId,
}

/// The result of a call to run a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerResult {
    /// A new job was created.
    Created(Ticket),
    /// The account has no such schedule.
    NoSuchSchedule,
    /// The account's quota of jobs in this month is used up.
    UsedUp(UsedUp),
    /// The jobs that the account has made in this month must be counted first, by
    /// `QuotaStore::begin_months`.
    Uncounted,
}

impl TriggerResult {
    /// Returns the ticket of the new job, if one was created.
    pub fn ticket(self) -> Option<Ticket> {
        match self {
            Self::Created(ticket) => Some(ticket),
            Self::NoSuchSchedule | Self::UsedUp(_) | Self::Uncounted => None,
        }
    }
}

/// The result of a call to run a job again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetryResult {
    /// A new job with trigger `retry` was created.
    Created(Ticket),
    /// The account has no such job.
    NotFound,
    /// The job has not finished.
    Unfinished,
    /// The job's schedule was deleted.
    ScheduleGone,
    /// The account's quota of jobs in this month is used up.
    UsedUp(UsedUp),
    /// The jobs that the account has made in this month must be counted first, by
    /// `QuotaStore::begin_months`.
    Uncounted,
}

/// The result of a call to cancel a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// A waiting job has ended. A running job gets no further attempt, and its executor finds it in
    /// `ClaimStore::aborts`. The ticket is that of a held job that may start now.
    Done(Vec<Ticket>),
    /// The account has no such job.
    NotFound,
    /// The job has finished.
    Finished,
}

/// The filters and the page of a list of jobs, newest `scheduled_run_at` first, which is the order
/// of ids.
#[derive(Clone, Debug)]
pub struct JobQuery {
    /// Only jobs of this schedule.
    pub schedule: Option<ScheduleId>,
    /// Only jobs with this status.
    pub status: Option<JobStatus>,
    /// Only jobs with this trigger.
    pub trigger: Option<Trigger>,
    /// Only jobs scheduled at this time or later.
    pub from: Option<Timestamp>,
    /// Only jobs scheduled at this time or earlier.
    pub to: Option<Timestamp>,
    /// Only jobs after this one in the order of the list; then `offset` is 0.
    pub after: Option<JobId>,
    /// The number of jobs to skip.
    pub offset: u64,
    /// The maximum number of jobs.
    pub limit: u32,
    /// The maximum size of a response in bytes. A longer one is cut at a character boundary and
    /// marked as truncated.
    pub max_response_bytes: usize,
    /// The maximum total size of the texts of the page, in bytes. The page has at least one job
    /// even if that exceeds it.
    pub max_bytes: usize,
}

impl JobQuery {
    /// Returns the query for the newest jobs of an account, without their responses.
    pub fn newest(limit: u32, max_bytes: usize) -> Self {
        Self {
            schedule: None,
            status: None,
            trigger: None,
            from: None,
            to: None,
            after: None,
            offset: 0,
            limit,
            max_response_bytes: 0,
            max_bytes,
        }
    }
}

/// A page of a list of jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPage {
    /// The jobs, newest first.
    pub jobs: Vec<Job>,
    /// The number of jobs that pass the filters, counted up to 10,000.
    pub total: u64,
    /// `true` if more jobs follow.
    pub has_more: bool,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Jobs: creating, reading and cancelling them for users. A change fails with `Suspended` or
    /// `NoSuchAccount` if the account is suspended or deleted; a concurrent suspension or deletion
    /// happens completely before or after the change.
    pub trait JobStore: Send + Sync {
        /// Creates a job with trigger `manual`. It locks the schedule's row, so that a concurrent
        /// delete happens completely before or after it. It ignores the switch, the overlap policy
        /// and the next tick of the schedule, and does not change them. `quota` is the number of
        /// jobs that the account's plan allows in a month, if it limits them; the job counts only
        /// if it is created.
        async fn create_job(
            &self,
            write: &WriteContext,
            job: &NewJob,
            quota: Option<u64>,
        ) -> Result<TriggerResult>;

        /// Creates a job of the schedule of the finished job `of`, with the schedule's current
        /// version. It counts against the quota as in `create_job`.
        async fn retry_job(
            &self,
            write: &WriteContext,
            of: JobId,
            id: JobId,
            quota: Option<u64>,
        ) -> Result<RetryResult>;

        /// Ends a job as FAILED `CANCELLED`, at once or after the attempt under way. It does not
        /// count as a consecutive failure and does not change `last_run_at` or `last_job_status`.
        async fn cancel_job(&self, write: &WriteContext, id: JobId) -> Result<Cancelled>;

        /// Returns a job with its attempts, including the one under way.
        async fn job(&self, account: AccountId, id: JobId) -> Result<Option<(Job, Vec<Attempt>)>>;

        /// Lists jobs. For a schedule that the account does not have, the list is empty.
        async fn jobs(&self, account: AccountId, query: &JobQuery) -> Result<JobPage>;
    }
}
