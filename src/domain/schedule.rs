//! Schedules: when and how a request is made.

use super::job::JobStatus;
use super::names::names;
use super::{ScheduleId, Timestamp, VersionId};

pub use super::method::HttpMethod;
pub use super::unreadable::UnreadableFields;

names! {
    /// What a tick does while a job of an earlier tick has not finished.
    OverlapPolicy {
        /// It runs beside it.
        Allow = "allow",
        /// It is skipped.
        Skip = "skip",
        /// One waits until the other has finished; more are skipped.
        QueueOne = "queue_one",
    }
}

names! {
    /// What becomes of ticks that are over 60 s late.
    CatchUpPolicy {
        /// The newest runs.
        Last = "last",
        /// The newest 100 run, oldest first.
        All = "all",
        /// None runs.
        Skip = "skip",
    }
}

names! {
    /// Why a tick became no job.
    SkipReason {
        /// An earlier job had not finished.
        Overlap = "overlap",
        /// It was late and the catch-up policy did not want it.
        CatchUp = "catch_up",
        /// The plan's quota was used up.
        Quota = "quota",
        /// The schedule was changed or disabled before it could be fired.
        Superseded = "superseded",
        /// The account was suspended.
        Suspended = "suspended",
        /// It became due between a backup and the moment at which that was restored.
        Restored = "restored",
        /// Too many jobs of the schedule had not begun yet.
        Backlog = "backlog",
    }
}

/// One immutable state of what a schedule does; everything in it has been checked.
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
    /// Attempts in all, the first included: 1 to 10.
    pub max_retries: u8,
    /// The limit of one attempt: 1 to 300.
    pub timeout_seconds: u16,
    /// The status codes that count as success; below 400 if absent.
    pub expected_status_codes: Option<String>,
    /// Whether requests carry the account's signature.
    pub sign_requests: bool,
}

/// A schedule as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Its id.
    pub id: ScheduleId,
    /// 1 to 255 characters.
    pub name: String,
    /// At most 1000 characters.
    pub description: Option<String>,
    /// The version that is current.
    pub version: VersionId,
    /// What that version says.
    pub definition: Definition,
    /// What of it is missing.
    pub unreadable: UnreadableFields,
    /// Whether its ticks fire.
    pub is_enabled: bool,
    /// See the type.
    pub overlap_policy: OverlapPolicy,
    /// See the type.
    pub catch_up_policy: CatchUpPolicy,
    /// The next tick; absent while disabled.
    pub next_tick: Option<Timestamp>,
    /// When its last finished job began.
    pub last_run_at: Option<Timestamp>,
    /// How its last finished job ended.
    pub last_job_status: Option<JobStatus>,
    /// How many jobs have failed since one succeeded.
    pub consecutive_failures: u32,
    /// When it was made.
    pub created_at: Timestamp,
    /// When a user last changed it.
    pub updated_at: Timestamp,
    /// Raised by every change of a user; a change names the one it read.
    pub revision: i64,
}

/// Ticks of one schedule that became no jobs, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The first of them.
    pub first: Timestamp,
    /// The last of them.
    pub last: Timestamp,
    /// How many, exact to 10,000.
    pub count: u32,
    /// Why: the text of a [`SkipReason`], or of one that only newer releases know.
    pub reason: String,
}

/// The number up to which a skip counts its ticks.
pub const SKIP_COUNT_CAP: u32 = 10_000;
