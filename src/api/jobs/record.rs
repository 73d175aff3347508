//! The records of jobs and attempts in answers.

use serde::Serialize;
use utoipa::ToSchema;

use crate::api::schemas;
use crate::domain::job::{Attempt, Job};
use crate::domain::outcome::Timings;
use crate::domain::{JobId, ScheduleId, Timestamp};

/// A job.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Job)]
pub(super) struct JobRecord {
    #[schema(value_type = String, examples("job_01HF7YAT000000000000000007"))]
    id: JobId,
    #[schema(value_type = String)]
    schedule_id: ScheduleId,
    #[schema(schema_with = schemas::job_status)]
    status: &'static str,
    /// The cause of the job.
    #[schema(schema_with = schemas::trigger)]
    trigger: &'static str,
    #[schema(schema_with = schemas::instant)]
    scheduled_run_at_utc: Timestamp,
    /// The number of attempts that have begun.
    attempt_number: u8,
    /// The maximum number of attempts.
    max_attempts: u8,
    #[schema(required, schema_with = schemas::instant_or_null)]
    next_attempt_at_utc: Option<Timestamp>,
    #[schema(schema_with = schemas::http_method)]
    http_method: &'static str,
    endpoint: String,
    #[schema(required)]
    body: Option<String>,
    #[schema(required)]
    headers: Option<String>,
    /// The status code of the last response.
    #[schema(required)]
    status_code: Option<u16>,
    /// The start of the last response's body: up to 64 KiB, in lists 2 KiB.
    #[schema(required)]
    response: Option<String>,
    /// A JSON object of strings, encoded as a string.
    #[schema(required)]
    response_headers: Option<String>,
    response_truncated: bool,
    /// The start of the first attempt.
    #[schema(required, schema_with = schemas::instant_or_null)]
    started_at_utc: Option<Timestamp>,
    #[schema(required, schema_with = schemas::instant_or_null)]
    completed_at_utc: Option<Timestamp>,
    /// The duration of the last attempt.
    #[schema(required)]
    duration_ms: Option<u32>,
    #[schema(required, schema_with = schemas::error_code_or_null)]
    error_code: Option<&'static str>,
    #[schema(required)]
    error_message: Option<String>,
    #[schema(schema_with = schemas::instant)]
    created_at: Timestamp,
    #[schema(schema_with = schemas::instant)]
    updated_at: Timestamp,
}

impl From<Job> for JobRecord {
    fn from(job: Job) -> Self {
        Self {
            id: job.id,
            schedule_id: job.schedule_id,
            status: job.status.as_str(),
            trigger: job.trigger.as_str(),
            scheduled_run_at_utc: job.scheduled_run_at,
            attempt_number: job.attempt_number,
            max_attempts: job.max_attempts,
            next_attempt_at_utc: job.next_attempt_at,
            http_method: job.http_method.as_str(),
            endpoint: job.endpoint,
            body: job.body,
            headers: job.headers,
            status_code: job.status_code,
            response: job.response,
            response_headers: job.response_headers,
            response_truncated: job.response_truncated,
            started_at_utc: job.started_at,
            completed_at_utc: job.completed_at,
            duration_ms: job.duration_ms,
            error_code: job.error_code.map(|code| code.as_str()),
            error_message: job.error_message,
            created_at: job.created_at,
            updated_at: job.updated_at,
        }
    }
}

/// A job with its attempts.
#[derive(Serialize, ToSchema)]
pub(in crate::api) struct JobWithAttempts {
    #[serde(flatten)]
    job: JobRecord,
    /// The attempts in order, including a running one.
    attempts: Vec<AttemptRecord>,
}

impl JobWithAttempts {
    /// Creates the record of a job and its attempts.
    pub(in crate::api) fn new(job: Job, attempts: Vec<Attempt>) -> Self {
        let attempts = attempts.into_iter().map(AttemptRecord::from).collect();
        Self { job: job.into(), attempts }
    }
}

/// One HTTP request of a job.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Attempt)]
pub(super) struct AttemptRecord {
    /// The number of the attempt, from 1.
    number: u8,
    #[schema(schema_with = schemas::instant)]
    started_at_utc: Timestamp,
    #[schema(required, schema_with = schemas::instant_or_null)]
    completed_at_utc: Option<Timestamp>,
    #[schema(required)]
    duration_ms: Option<u32>,
    #[schema(required)]
    status_code: Option<u16>,
    #[schema(required, schema_with = schemas::error_code_or_null)]
    error_code: Option<&'static str>,
    #[schema(required)]
    error_message: Option<String>,
    timings: TimingsRecord,
}

impl From<Attempt> for AttemptRecord {
    fn from(attempt: Attempt) -> Self {
        Self {
            number: attempt.number,
            started_at_utc: attempt.started_at,
            completed_at_utc: attempt.completed_at,
            duration_ms: attempt.duration_ms,
            status_code: attempt.status_code,
            error_code: attempt.error_code.map(|code| code.as_str()),
            error_message: attempt.error_message,
            timings: attempt.timings.into(),
        }
    }
}

/// The duration of each phase, in milliseconds.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Timings)]
pub(super) struct TimingsRecord {
    #[schema(required)]
    dns_ms: Option<u32>,
    /// Connecting, including TLS; `null` for a reused connection.
    #[schema(required)]
    connect_ms: Option<u32>,
    #[schema(required)]
    first_byte_ms: Option<u32>,
    #[schema(required)]
    body_ms: Option<u32>,
}

impl From<Timings> for TimingsRecord {
    fn from(Timings { dns_ms, connect_ms, first_byte_ms, body_ms }: Timings) -> Self {
        Self { dns_ms, connect_ms, first_byte_ms, body_ms }
    }
}
