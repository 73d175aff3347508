//! The effect of an attempt's end on its job.

use crate::domain::job::JobStatus;
use crate::domain::outcome::{ErrorCode, Failure};
use crate::domain::shard::ShardId;
use crate::domain::{JobId, ScheduleId, Timestamp};
use crate::store::{AttemptEnd, ClaimedRun, Committed, Completion, CompletionResult};

/// The state of a job when one of its attempts ends.
pub(in crate::store) struct RunningJob {
    /// The index of its completion in the batch.
    pub(in crate::store) position: usize,
    pub(in crate::store) schedule: ScheduleId,
    pub(in crate::store) shard: ShardId,
    pub(in crate::store) max_attempts: u8,
    pub(in crate::store) started_at: Timestamp,
    pub(in crate::store) attempt_started_at: Timestamp,
    /// The value of the job's column `stop`.
    pub(in crate::store) stop: u8,
}

impl RunningJob {
    /// Returns the job of the completion at this index, as its claim reported it and as if nothing
    /// had changed it since; `None` if the completion lacks that data.
    pub(in crate::store) fn claimed(position: usize, completion: &Completion) -> Option<Self> {
        let ClaimedRun { schedule, shard, max_attempts, started_at, first_started_at } =
            completion.run?;
        Some(Self {
            position,
            schedule,
            shard,
            max_attempts,
            started_at: first_started_at,
            attempt_started_at: started_at,
            stop: 0,
        })
    }
}

/// A job whose attempt has ended, and the result for the job.
pub(in crate::store) struct JobEnding {
    pub(in crate::store) position: usize,
    pub(in crate::store) job: JobId,
    pub(in crate::store) schedule: ScheduleId,
    pub(in crate::store) shard: ShardId,
    pub(in crate::store) started_at: Timestamp,
    pub(in crate::store) attempt_started_at: Timestamp,
    pub(in crate::store) status: JobStatus,
    pub(in crate::store) failure: Option<Failure>,
    pub(in crate::store) retry_at: Option<Timestamp>,
    /// The value of the job's column `stop` that this decision is based on.
    pub(in crate::store) stop: u8,
    /// `true` if the job is the active job of its schedule. The adapter looks this up later.
    pub(in crate::store) is_active: bool,
}

/// A job of a tick that has ended.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct EndedJob {
    pub(in crate::store) shard: ShardId,
    pub(in crate::store) schedule: ScheduleId,
    pub(in crate::store) job: JobId,
}

impl JobEnding {
    pub(in crate::store) fn new(running: &RunningJob, completion: &Completion) -> Self {
        let RunningJob { position, schedule, shard, max_attempts, stop, .. } = *running;
        let (status, failure, retry_at) = match &completion.end {
            AttemptEnd::Succeeded => (JobStatus::Success, None, None),
            // The attempt may have failed by itself before it was aborted: a cancelled job counts
            // as cancelled either way.
            AttemptEnd::Failed(_) if stop == CANCELLED => {
                (JobStatus::Failed, Some(cancelled(stop)), None)
            }
            AttemptEnd::Failed(failure) => (JobStatus::Failed, Some(failure.clone()), None),
            AttemptEnd::Retry(..) if stop > 0 => (JobStatus::Failed, Some(cancelled(stop)), None),
            // No attempt is left (JOB-1), even if the caller asks for a retry. Waiting for one
            // would never end (JOB-3).
            AttemptEnd::Retry(failure, _) if completion.attempt >= max_attempts => {
                (JobStatus::Failed, Some(failure.clone()), None)
            }
            AttemptEnd::Retry(failure, at) => {
                (JobStatus::Pending, Some(failure.clone()), Some(*at))
            }
        };
        Self {
            position,
            job: completion.job,
            schedule,
            shard,
            started_at: running.started_at,
            attempt_started_at: running.attempt_started_at,
            status,
            failure,
            retry_at,
            stop,
            is_active: false,
        }
    }

    /// Records that the completion at `position` took effect.
    pub(in crate::store) fn note(&self, position: usize, committed: &mut Committed) {
        committed.results[position] = CompletionResult::Applied(self.status);
        let failure = self.failure.as_ref().filter(|_| self.status == JobStatus::Failed);
        committed.failed.extend(failure.map(|failure| (position, failure.code)));
    }

    /// Returns the job if it is final and was active, so that a held job may wait for its end.
    pub(in crate::store) fn ended(&self) -> Option<EndedJob> {
        let Self { shard, schedule, job, .. } = *self;
        (self.is_active && self.status.is_final()).then_some(EndedJob { shard, schedule, job })
    }
}

/// The value of the column `stop` of a job that a user has cancelled.
const CANCELLED: u8 = 2;

/// Returns the failure of a job that gets no further attempt, from its column `stop`.
fn cancelled(stop: u8) -> Failure {
    let why = if stop == CANCELLED { "the job was cancelled" } else { "the schedule was deleted" };
    Failure { code: ErrorCode::Cancelled, message: why.to_owned(), retryable: false }
}
