//! Jobs: one execution each, of a tick, of a manual trigger or of a retry of a finished job.
//!
//! ```text
//! PENDING --attempt starts--> RUNNING --success--> SUCCESS
//!    ^                          |  |
//!    '--retryable, one is left--'  '--final, or none left--> FAILED
//! PENDING or RUNNING --cancelled--> FAILED
//! ```

use super::method::HttpMethod;
use super::names::names;
use super::outcome::{ErrorCode, Timings};
use super::unreadable::UnreadableFields;
use super::{JobId, ScheduleId, Timestamp};

names! {
    /// Where a job stands.
    JobStatus {
        /// It waits for an attempt.
        Pending = "PENDING",
        /// An attempt is under way.
        Running = "RUNNING",
        /// Final: an attempt brought what was expected.
        Success = "SUCCESS",
        /// Final: none did.
        Failed = "FAILED",
    }
}

impl JobStatus {
    /// Whether it can never change again (JOB-2).
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Success | Self::Failed)
    }
}

names! {
    /// What made a job.
    Trigger {
        /// A tick, on time.
        Schedule = "schedule",
        /// A user's call.
        Manual = "manual",
        /// A tick, over a second late.
        CatchUp = "catch_up",
        /// A user's call to run a finished job again.
        Retry = "retry",
    }
}

/// A job as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// The schedule it is, or was, of.
    pub schedule_id: ScheduleId,
    /// Where it stands.
    pub status: JobStatus,
    /// What made it.
    pub trigger: Trigger,
    /// The tick, or the time of the user's call.
    pub scheduled_run_at: Timestamp,
    /// How many attempts have begun.
    pub attempt_number: u8,
    /// How many there can be.
    pub max_attempts: u8,
    /// When the next attempt is due, while it waits for one after the first.
    pub next_attempt_at: Option<Timestamp>,
    /// The request's method, of the version it was made with.
    pub http_method: HttpMethod,
    /// The request's URL.
    pub endpoint: String,
    /// The request's body.
    pub body: Option<String>,
    /// The request's headers.
    pub headers: Option<String>,
    /// What of these is missing.
    pub unreadable: UnreadableFields,
    /// The last response's status code.
    pub status_code: Option<u16>,
    /// The last response's body, as far as it is kept.
    pub response: Option<String>,
    /// The last response's headers, a JSON object of strings.
    pub response_headers: Option<String>,
    /// Whether the response had more than is kept.
    pub response_truncated: bool,
    /// When the first attempt began.
    pub started_at: Option<Timestamp>,
    /// When it became final.
    pub completed_at: Option<Timestamp>,
    /// How long the last attempt took.
    pub duration_ms: Option<u32>,
    /// Why the last attempt, or the job, failed.
    pub error_code: Option<ErrorCode>,
    /// The same for people.
    pub error_message: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// One HTTP request of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// 1 for the first.
    pub number: u8,
    /// When it was recorded, before anything was sent.
    pub started_at: Timestamp,
    /// When it ended; absent while it runs.
    pub completed_at: Option<Timestamp>,
    /// How long it took.
    pub duration_ms: Option<u32>,
    /// The response's status code.
    pub status_code: Option<u16>,
    /// Why it failed.
    pub error_code: Option<ErrorCode>,
    /// The same for people.
    pub error_message: Option<String>,
    /// Where the time went.
    pub timings: Timings,
}
