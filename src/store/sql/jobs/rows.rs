//! Reads jobs and their attempts from rows of either database. A job is in one of two tables: in
//! `runs` until it has finished, then in `jobs`.

use sqlx::FromRow;

use crate::domain::job::{Attempt, Job, JobStatus};
use crate::domain::outcome::{ErrorCode, Timings};
use crate::domain::schedule::UnreadableFields;
use crate::domain::{JobId, Timestamp, VersionId};
use crate::store::sql::encoding::rows::{StoreRow, number, read_rows, some_number};
use crate::store::sql::encoding::timings_of;

/// All columns of a finished job except its response, from its row `j` and its version `v`.
macro_rules! job_columns {
    () => {
        "j.id, j.version_id, j.schedule_id, j.status, j.trigger, j.attempt_number, j.max_attempts,
         CAST(NULL AS bigint) AS wake_at, j.status_code, j.response_headers, j.started_at,
         j.completed_at, j.duration_ms, j.error_code, j.error_message, j.created_at, j.updated_at,
         v.http_method, v.endpoint, v.body, v.headers"
    };
}
pub(in crate::store) use job_columns;

/// The same columns of an unfinished job, from its row `r` and its version `v`. The result of its
/// last ended attempt is in `a`.
macro_rules! run_columns {
    () => {
        "r.id, r.version_id, r.schedule_id, r.status, r.trigger, r.attempt_number, r.max_attempts,
         r.wake_at, a.status_code, a.response_headers, r.started_at,
         CAST(NULL AS bigint) AS completed_at, a.duration_ms, a.error_code, a.error_message,
         r.created_at, r.updated_at, v.http_method, v.endpoint, v.body, v.headers"
    };
}
pub(in crate::store) use run_columns;

/// The tables that [`run_columns`] come from.
macro_rules! run_tables {
    () => {
        "JOIN schedule_versions AS v ON v.id = r.version_id
         LEFT JOIN attempts AS a ON a.job_id = r.id AND a.number = r.attempt_number - r.status"
    };
}
pub(in crate::store) use run_tables;

/// The columns that are written when a job ends, after its id and its account.
macro_rules! history_columns {
    () => {
        "schedule_id, version_id, created_at, updated_at, started_at, completed_at,
         attempt_started_at, status, trigger, attempt_number, max_attempts, error_code,
         error_message, duration_ms, timings, status_code, response_truncated, response_headers,
         response"
    };
}
pub(in crate::store) use history_columns;

/// Reads the status and the schedule of a job, finished or not. Parameters: job, account.
pub(in crate::store) const STATUS: &str = "
    SELECT status, schedule_id FROM jobs WHERE id = $1 AND account_id = $2
    UNION ALL SELECT status, schedule_id FROM runs WHERE id = $1 AND account_id = $2";

/// Returns `true` if a job has finished. Parameters: job, account.
pub(in crate::store) const HAS_ENDED: &str =
    "SELECT EXISTS (SELECT 1 FROM jobs WHERE id = $1 AND account_id = $2)";

/// Reads a job, finished or not. Parameters: job, account.
pub(in crate::store) const JOB: &str = concat!(
    "SELECT ",
    run_columns!(),
    ", a.response, coalesce(a.response_truncated, false) AS response_truncated,
       r.attempt_started_at, a.timings
     FROM runs AS r ",
    run_tables!(),
    " WHERE r.id = $1 AND r.account_id = $2 AND EXISTS (SELECT 1 FROM accounts WHERE id = $2)
     UNION ALL
     SELECT ",
    job_columns!(),
    ", j.response, j.response_truncated, j.attempt_started_at, j.timings
     FROM jobs AS j JOIN schedule_versions AS v ON v.id = j.version_id
     WHERE j.id = $1 AND j.account_id = $2 AND EXISTS (SELECT 1 FROM accounts WHERE id = $2)"
);

/// Reads the reason why a job or an attempt has failed. A code that only newer releases know
/// becomes `Internal`: such a row must not make a list unreadable.
fn error_code(row: &impl StoreRow) -> sqlx::Result<Option<ErrorCode>> {
    let name: Option<String> = row.read("error_code")?;
    Ok(name.map(|name| name.parse().unwrap_or(ErrorCode::Internal)))
}

fn timings(row: &impl StoreRow) -> sqlx::Result<Timings> {
    let text: Option<String> = row.read("timings")?;
    Ok(timings_of(text.as_deref()))
}

/// Reads the scheduled time of a job from its id, which contains the tick, or the time of the
/// user's call.
fn scheduled_run_at(row: &impl StoreRow) -> sqlx::Result<Timestamp> {
    row.read("id").map(JobId::timestamp)
}

/// Reads the start of the next attempt of a job that was tried and waits for a retry.
fn next_attempt_at(row: &impl StoreRow) -> sqlx::Result<Option<Timestamp>> {
    let waits = row.read("status").map(|status: JobStatus| status == JobStatus::Pending)?;
    let was_tried = number::<i16, u8>(row, "attempt_number")? > 0;
    if waits && was_tried { row.read("wake_at") } else { Ok(None) }
}

fn response_bytes(row: &impl StoreRow) -> sqlx::Result<u64> {
    Ok(some_number::<i32, _>(row, "response_bytes")?.unwrap_or(0))
}

read_rows! {
    Attempt {
        number as i16, started_at, completed_at, duration_ms as Option<i64>,
        status_code as Option<i32>, error_code by error_code, error_message, timings by timings,
    }
    Job {
        id, schedule_id, status, trigger, scheduled_run_at by scheduled_run_at,
        attempt_number as i16, max_attempts as i16, next_attempt_at by next_attempt_at,
        http_method, endpoint, body, headers, unreadable = UnreadableFields::default(),
        status_code as Option<i32>, response, response_headers, response_truncated, started_at,
        completed_at, duration_ms as Option<i64>, error_code by error_code, error_message,
        created_at, updated_at,
    }
    ListedJob { version: "version_id", job: _, response_bytes by response_bytes }
}

/// A job and its last attempt, if it has had one, as far as the job's row contains it.
pub(in crate::store) struct JobAndLast {
    pub(in crate::store) version: VersionId,
    pub(in crate::store) job: Job,
    pub(in crate::store) last: Option<Attempt>,
}

impl<R: StoreRow> FromRow<'_, R> for JobAndLast {
    fn from_row(row: &R) -> sqlx::Result<Self> {
        let job = Job::from_row(row)?;
        let attempt_started_at: Option<Timestamp> = row.read("attempt_started_at")?;
        let timings: Option<String> = row.read("timings")?;
        let last = attempt_started_at.map(|at| last_attempt(&job, at, timings.as_deref()));
        Ok(Self { version: row.read("version_id")?, job, last })
    }
}

/// Returns the last attempt of a job, from the job and from two columns of its row that belong to
/// the attempt alone.
fn last_attempt(job: &Job, started_at: Timestamp, timings: Option<&str>) -> Attempt {
    let number = job.attempt_number;
    if job.status == JobStatus::Running {
        // The other columns still belong to the previous attempt.
        return Attempt {
            number,
            started_at,
            completed_at: None,
            duration_ms: None,
            status_code: None,
            error_code: None,
            error_message: None,
            timings: Timings::default(),
        };
    }
    Attempt {
        number,
        started_at,
        completed_at: job.completed_at,
        duration_ms: job.duration_ms,
        status_code: job.status_code,
        error_code: job.error_code,
        error_message: job.error_message.clone(),
        timings: timings_of(timings),
    }
}

/// A job of a list, with the size of its whole response.
pub(in crate::store) struct ListedJob {
    pub(in crate::store) version: VersionId,
    pub(in crate::store) job: Job,
    pub(in crate::store) response_bytes: u64,
}
