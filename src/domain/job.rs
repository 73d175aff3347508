//! Jobs: one execution each, of a tick, of a manual trigger or of a retry of a finished job.
//!
//! ```text
//! PENDING --attempt starts--> RUNNING --success--> SUCCESS
//!    ^                          |  |
//!    '--retryable, one is left--'  '--final, or none left--> FAILED
//! PENDING or RUNNING --cancelled--> FAILED
//! ```

use super::names::names;
use super::outcome::{ErrorCode, Timings};
use super::request::{HttpMethod, UnreadableFields};
use super::{JobId, ScheduleId, Timestamp};

names! {
    /// The status of a job.
    JobStatus {
        /// It waits for an attempt.
        Pending = "PENDING",
        /// An attempt is running.
        Running = "RUNNING",
        /// Final: an attempt brought the expected result.
        Success = "SUCCESS",
        /// Final: no attempt did.
        Failed = "FAILED",
    }
}

impl JobStatus {
    /// Returns `true` if the status can never change again (JOB-2).
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Success | Self::Failed)
    }
}

names! {
    /// The trigger of a job.
    Trigger {
        /// A tick, on time.
        Schedule = "schedule",
        /// A user's call.
        Manual = "manual",
        /// A tick, more than a second late.
        CatchUp = "catch_up",
        /// A user's call to run a finished job again.
        Retry = "retry",
    }
}

/// A job in its current state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The job's id.
    pub id: JobId,
    /// The job's schedule, which may have been deleted since.
    pub schedule_id: ScheduleId,
    /// The status.
    pub status: JobStatus,
    /// The trigger.
    pub trigger: Trigger,
    /// The tick, or the time of the user's call.
    pub scheduled_run_at: Timestamp,
    /// The number of attempts that have begun.
    pub attempt_number: u8,
    /// The maximum number of attempts.
    pub max_attempts: u8,
    /// The time at which the next attempt is due, while the job waits for one after the first.
    pub next_attempt_at: Option<Timestamp>,
    /// The method of the request, from the version with which the job was made.
    pub http_method: HttpMethod,
    /// The request's URL.
    pub endpoint: String,
    /// The request's body.
    pub body: Option<String>,
    /// The request's headers.
    pub headers: Option<String>,
    /// The secret fields that cannot be decrypted.
    pub unreadable: UnreadableFields,
    /// The last response's status code.
    pub status_code: Option<u16>,
    /// The kept part of the last response's body.
    pub response: Option<String>,
    /// The last response's headers, a JSON object of strings.
    pub response_headers: Option<String>,
    /// `true` if the response was longer than the kept part.
    pub response_truncated: bool,
    /// The start of the first attempt.
    pub started_at: Option<Timestamp>,
    /// The time at which the job became final.
    pub completed_at: Option<Timestamp>,
    /// The duration of the last attempt, in milliseconds.
    pub duration_ms: Option<u32>,
    /// The reason why the last attempt, or the job, failed.
    pub error_code: Option<ErrorCode>,
    /// The reason as text for people.
    pub error_message: Option<String>,
    /// The time of the job's creation.
    pub created_at: Timestamp,
    /// The time of the job's last change.
    pub updated_at: Timestamp,
}

/// One HTTP request of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The attempt's number; the first is 1.
    pub number: u8,
    /// The time of its record, before anything was sent.
    pub started_at: Timestamp,
    /// The end of the attempt; absent while it runs.
    pub completed_at: Option<Timestamp>,
    /// Its duration, in milliseconds.
    pub duration_ms: Option<u32>,
    /// The response's status code.
    pub status_code: Option<u16>,
    /// The reason of the failure.
    pub error_code: Option<ErrorCode>,
    /// The reason as text for people.
    pub error_message: Option<String>,
    /// The time that each phase took.
    pub timings: Timings,
}
