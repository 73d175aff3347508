//! The record of a schedule in answers.

use serde::Serialize;
use utoipa::ToSchema;

use crate::api::schemas;
use crate::domain::schedule::Schedule;
use crate::domain::{ScheduleId, Timestamp};

/// A schedule.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Schedule)]
pub(in crate::api) struct ScheduleRecord {
    #[schema(value_type = String, examples("sch_01HF7YAT000000000000000007"))]
    id: ScheduleId,
    #[schema(examples("Nightly report"))]
    name: String,
    #[schema(required)]
    description: Option<String>,
    #[schema(examples("0 2 * * *"))]
    cron_expression: String,
    #[schema(examples("Europe/Berlin"))]
    timezone: String,
    #[schema(examples("https://example.com/reports"))]
    endpoint: String,
    #[schema(schema_with = schemas::http_method)]
    http_method: &'static str,
    #[schema(required)]
    body: Option<String>,
    /// A JSON object of strings, encoded as a string.
    #[schema(required)]
    headers: Option<String>,
    /// The maximum number of attempts, including the first.
    #[schema(minimum = 1, maximum = 10)]
    max_retries: u8,
    #[schema(minimum = 1, maximum = 300)]
    timeout_seconds: u16,
    #[schema(required)]
    expected_status_codes: Option<String>,
    is_enabled: bool,
    #[schema(schema_with = schemas::overlap_policy)]
    overlap_policy: &'static str,
    #[schema(schema_with = schemas::catch_up_policy)]
    catch_up_policy: &'static str,
    #[schema(required, schema_with = schemas::instant_or_null)]
    next_run_at_utc: Option<Timestamp>,
    #[schema(required, schema_with = schemas::instant_or_null)]
    last_run_at_utc: Option<Timestamp>,
    #[schema(required, schema_with = schemas::final_status_or_null)]
    last_job_status: Option<&'static str>,
    consecutive_failures: u32,
    sign_requests: bool,
    #[schema(schema_with = schemas::instant)]
    created_at: Timestamp,
    #[schema(schema_with = schemas::instant)]
    updated_at: Timestamp,
}

impl From<Schedule> for ScheduleRecord {
    fn from(schedule: Schedule) -> Self {
        let definition = schedule.definition;
        Self {
            id: schedule.id,
            name: schedule.name,
            description: schedule.description,
            cron_expression: definition.cron_expression,
            timezone: definition.timezone,
            endpoint: definition.endpoint,
            http_method: definition.http_method.as_str(),
            body: definition.body,
            headers: definition.headers,
            max_retries: definition.max_retries,
            timeout_seconds: definition.timeout_seconds,
            expected_status_codes: definition.expected_status_codes,
            is_enabled: schedule.is_enabled,
            overlap_policy: schedule.overlap_policy.as_str(),
            catch_up_policy: schedule.catch_up_policy.as_str(),
            next_run_at_utc: schedule.next_tick,
            last_run_at_utc: schedule.last_run_at,
            last_job_status: schedule.last_job_status.map(|status| status.as_str()),
            consecutive_failures: schedule.consecutive_failures,
            sign_requests: definition.sign_requests,
            created_at: schedule.created_at,
            updated_at: schedule.updated_at,
        }
    }
}
