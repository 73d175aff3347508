//! Jobs: what users do with them.

use super::{Result, UsedUp, Write};
use crate::domain::job::{Attempt, Job, JobStatus, Trigger};
use crate::domain::ticket::Ticket;
use crate::domain::{AccountId, JobId, ScheduleId, Timestamp};
use crate::runtime::measured;

/// A job that a user asks for. It runs by the schedule's current version, at once; its
/// `scheduled_run_at` is the time in its id.
#[derive(Clone, Copy, Debug)]
pub struct NewJob {
    /// Its id, made at the time of the call.
    pub id: JobId,
    /// Its schedule.
    pub schedule: ScheduleId,
}

/// What became of a call to run a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Triggered {
    /// A new job was made.
    Created(Ticket),
    /// The account has no such schedule.
    NoSuchSchedule,
    /// The account has no job left in this month.
    UsedUp(UsedUp),
    /// The jobs that the account has made in this month are to be counted first, by
    /// `QuotaStore::begin_months`.
    Uncounted,
}

impl Triggered {
    /// The ticket of the new job, if there is one.
    pub fn ticket(self) -> Option<Ticket> {
        match self {
            Self::Created(ticket) => Some(ticket),
            Self::NoSuchSchedule | Self::UsedUp(_) | Self::Uncounted => None,
        }
    }
}

/// What became of a call to run a job again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retried {
    /// A new job with trigger `retry` was made.
    Created(Ticket),
    /// The account has no such job.
    NotFound,
    /// The job has not finished.
    Unfinished,
    /// The job's schedule is gone.
    ScheduleGone,
    /// The account has no job left in this month.
    UsedUp(UsedUp),
    /// The jobs that the account has made in this month are to be counted first, by
    /// `QuotaStore::begin_months`.
    Uncounted,
}

/// What became of a call to cancel a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// A waiting job has ended; a running one will have no further attempt, and its executor
    /// finds it in `ClaimStore::aborts`. Tickets are of a held job that may start now.
    Done(Vec<Ticket>),
    /// The account has no such job.
    NotFound,
    /// The job has finished.
    Finished,
}

/// Which jobs to list: newest `scheduled_run_at` first, which is by id.
#[derive(Clone, Debug)]
pub struct JobQuery {
    /// Only of this schedule.
    pub schedule: Option<ScheduleId>,
    /// Only in this status.
    pub status: Option<JobStatus>,
    /// Only made this way.
    pub trigger: Option<Trigger>,
    /// Not those scheduled before.
    pub from: Option<Timestamp>,
    /// Not those scheduled after.
    pub to: Option<Timestamp>,
    /// Only after this one in the order; then `offset` is 0.
    pub after: Option<JobId>,
    /// How many to pass over first.
    pub offset: u64,
    /// How many at most.
    pub limit: u32,
    /// Responses are cut to this many bytes, at a character's boundary, and then marked as
    /// truncated.
    pub max_response_bytes: usize,
    /// The page ends before its texts exceed this, but holds at least one job.
    pub max_bytes: usize,
}

/// Some of the jobs that a query asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPage {
    /// Newest first.
    pub jobs: Vec<Job>,
    /// How many the filters let through, counted to 10,000.
    pub total: u64,
    /// Whether there are more after the last one.
    pub has_more: bool,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Jobs: what users do with them. What changes something fails with `Suspended` or `NoSuchAccount`
    /// if the account is that; suspending and deleting it come wholly before or after.
    pub trait JobStore: Send + Sync {
        /// Makes a job with trigger `manual`, taking the schedule's row so that a delete at the same
        /// time comes wholly before or after. Disabled schedules, overlap policies and next ticks do not
        /// matter and are not touched. `quota` is how many jobs the account's plan allows in a month, if
        /// it limits them: this one is counted if it is made, and only then.
        async fn create_job(
            &self,
            write: &Write,
            job: &NewJob,
            quota: Option<u64>,
        ) -> Result<Triggered>;

        /// Makes a job like the finished job `of`, by the schedule's current version. It is counted as
        /// by `create_job`.
        async fn retry_job(
            &self,
            write: &Write,
            of: JobId,
            id: JobId,
            quota: Option<u64>,
        ) -> Result<Retried>;

        /// Ends a job as FAILED `CANCELLED`, at once or after the attempt under way. It counts in no
        /// streak and leaves `last_run_at` and `last_job_status` as they are.
        async fn cancel_job(&self, write: &Write, id: JobId) -> Result<Cancelled>;

        /// One job with its attempts, the one under way included.
        async fn job(&self, account: AccountId, id: JobId) -> Result<Option<(Job, Vec<Attempt>)>>;

        /// Lists jobs. A schedule of another account, or none, has none.
        async fn jobs(&self, account: AccountId, query: &JobQuery) -> Result<JobPage>;
    }
}
