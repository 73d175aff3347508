//! Schedules: the time and the content of requests.

use super::job::JobStatus;
use super::names::names;
use super::{ScheduleId, Timestamp, VersionId};

pub use super::request::{HttpMethod, UnreadableFields};

names! {
    /// The handling of a tick while a job of an earlier tick has not finished.
    OverlapPolicy {
        /// The new job runs in parallel.
        Allow = "allow",
        /// The tick is skipped.
        Skip = "skip",
        /// One job waits until the earlier job has finished; further ticks are skipped.
        QueueOne = "queue_one",
    }
}

names! {
    /// The handling of ticks that are more than 60 s late.
    CatchUpPolicy {
        /// The newest tick runs.
        Last = "last",
        /// The newest 100 ticks run, oldest first.
        All = "all",
        /// No tick runs.
        Skip = "skip",
    }
}

names! {
    /// The reason why a tick did not become a job.
    SkipReason {
        /// An earlier job had not finished.
        Overlap = "overlap",
        /// The tick was late, and the catch-up policy excluded it.
        CatchUp = "catch_up",
        /// The plan's quota was used up.
        Quota = "quota",
        /// The schedule was changed or disabled before the tick could be fired.
        Superseded = "superseded",
        /// The account was suspended.
        Suspended = "suspended",
        /// The tick became due between a backup and its restore.
        Restored = "restored",
        /// Too many jobs of the schedule had not begun yet.
        Backlog = "backlog",
    }
}

/// One immutable version of a schedule's behaviour; all its fields are validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Five fields, as given.
    pub cron_expression: String,
    /// An IANA name.
    pub timezone: String,
    /// An absolute URL.
    pub endpoint: String,
    /// The method.
    pub http_method: HttpMethod,
    /// The request's body; secret.
    pub body: Option<String>,
    /// The request's headers, a JSON object of strings; secret.
    pub headers: Option<String>,
    /// The maximum number of attempts, including the first: 1 to 10.
    pub max_retries: u8,
    /// The timeout of one attempt, in seconds: 1 to 300.
    pub timeout_seconds: u16,
    /// The status codes that count as success; if absent, all below 400.
    pub expected_status_codes: Option<String>,
    /// `true` if requests carry the account's signature.
    pub sign_requests: bool,
}

/// The note with which a schedule was paused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseNote {
    /// The text, of 1 to 200 characters.
    pub text: String,
    /// The author: the text of an [`Actor`](super::audit::Actor).
    pub author: String,
    /// The time at which it was written.
    pub at: Timestamp,
}

/// A schedule in its current state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The schedule's id.
    pub id: ScheduleId,
    /// 1 to 255 characters.
    pub name: String,
    /// At most 1000 characters.
    pub description: Option<String>,
    /// The current version.
    pub version: VersionId,
    /// The definition of that version.
    pub definition: Definition,
    /// The secret fields that cannot be decrypted.
    pub unreadable: UnreadableFields,
    /// `true` if its ticks fire.
    pub is_enabled: bool,
    /// The note with which it was paused. An enabled schedule has none.
    pub pause: Option<PauseNote>,
    /// The handling of overlapping ticks.
    pub overlap_policy: OverlapPolicy,
    /// The handling of late ticks.
    pub catch_up_policy: CatchUpPolicy,
    /// The next tick; absent while disabled.
    pub next_tick: Option<Timestamp>,
    /// The start of its last finished job.
    pub last_run_at: Option<Timestamp>,
    /// The status of its last finished job.
    pub last_job_status: Option<JobStatus>,
    /// The number of jobs that have failed since the last success.
    pub consecutive_failures: u32,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time of the last change by a user.
    pub updated_at: Timestamp,
    /// The revision. Every change by a user raises it, and each change states the revision that it
    /// read.
    pub revision: i64,
}

/// Ticks of one schedule that did not become jobs, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The first of them.
    pub first: Timestamp,
    /// The last of them.
    pub last: Timestamp,
    /// Their number, exact up to 10,000.
    pub count: u32,
    /// The reason: the text of a [`SkipReason`], or of one that only newer releases know.
    pub reason: String,
}

/// The maximum number of ticks that a skip counts.
pub const SKIP_COUNT_CAP: u32 = 10_000;
