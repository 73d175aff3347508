//! The body of a webhook. It is part of the API: changes are additive or get a new `version`.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::domain::alert::AlertKind;
use crate::domain::alert::content::{
    Alert, AlertedJob, AlertedSchedule, DigestAlert, IncidentAlert, JobAlert, Subject,
};
use crate::domain::{EventId, JobId, ScheduleId, Timestamp};

/// The version of the body's format.
const VERSION: &str = "1";

/// Returns the body for `alert` as compact JSON.
pub fn body(alert: &Alert) -> Vec<u8> {
    // Serializing structs of texts and numbers cannot fail.
    serde_json::to_vec(&event(alert)).unwrap_or_default()
}

fn event(alert: &Alert) -> WebhookEvent<'_> {
    WebhookEvent {
        id: alert.id,
        kind: alert.kind.as_str(),
        created_at: alert.created_at,
        version: VERSION,
        data: EventData { subject: subject(&alert.subject), dashboard_url: alert.link.as_deref() },
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WebhookEvent<'a> {
    id: EventId,
    #[serde(rename = "type")]
    kind: &'static str,
    created_at: Timestamp,
    version: &'static str,
    data: EventData<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventData<'a> {
    #[serde(flatten)]
    subject: SubjectBody<'a>,
    dashboard_url: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum SubjectBody<'a> {
    Job { schedule: ScheduleBody<'a>, job: JobBody<'a>, consecutive_failures: u32 },
    Incident { incident: IncidentBody<'a> },
    Digest { digest: DigestBody<'a> },
    Channel { channel: ChannelBody<'a> },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ScheduleBody<'a> {
    id: ScheduleId,
    name: &'a str,
    cron_expression: &'a str,
    timezone: &'a str,
    endpoint: &'a str,
    http_method: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JobBody<'a> {
    id: JobId,
    schedule_id: ScheduleId,
    status: &'static str,
    trigger: &'static str,
    scheduled_run_at_utc: Timestamp,
    attempt_number: u8,
    max_attempts: u8,
    status_code: Option<u16>,
    response: Option<&'a str>,
    response_truncated: bool,
    started_at_utc: Option<Timestamp>,
    completed_at_utc: Option<Timestamp>,
    duration_ms: Option<u32>,
    error_code: Option<&'static str>,
    error_message: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IncidentBody<'a> {
    host: &'a str,
    schedules: u32,
    failing: u32,
    failures: u32,
    names: &'a [String],
    since_utc: Timestamp,
    until_utc: Option<Timestamp>,
    error: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DigestBody<'a> {
    total: u32,
    counts: KindCounts<'a>,
    names: &'a [String],
    since_utc: Timestamp,
    until_utc: Timestamp,
}

#[derive(Serialize)]
struct ChannelBody<'a> {
    label: &'a str,
}

/// The number of alerts by kind: `{"job.failed": 200}`.
struct KindCounts<'a>(&'a [(AlertKind, u32)]);

impl Serialize for KindCounts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (kind, count) in self.0 {
            map.serialize_entry(kind.as_str(), count)?;
        }
        map.end()
    }
}

fn subject(subject: &Subject) -> SubjectBody<'_> {
    match subject {
        Subject::Job(alert) => {
            let JobAlert { schedule, job, consecutive_failures } = &**alert;
            SubjectBody::Job {
                job: job_body(job, schedule.id),
                schedule: schedule_body(schedule),
                consecutive_failures: *consecutive_failures,
            }
        }
        Subject::Incident(alert) => SubjectBody::Incident { incident: incident_body(alert) },
        Subject::Digest(alert) => SubjectBody::Digest { digest: digest_body(alert) },
        Subject::Test { label } => SubjectBody::Channel { channel: ChannelBody { label } },
    }
}

fn schedule_body(schedule: &AlertedSchedule) -> ScheduleBody<'_> {
    ScheduleBody {
        id: schedule.id,
        name: &schedule.name,
        cron_expression: &schedule.cron_expression,
        timezone: &schedule.timezone,
        endpoint: &schedule.endpoint,
        http_method: schedule.http_method.as_str(),
    }
}

fn job_body(job: &AlertedJob, schedule_id: ScheduleId) -> JobBody<'_> {
    JobBody {
        id: job.id,
        schedule_id,
        status: job.status.as_str(),
        trigger: job.trigger.as_str(),
        scheduled_run_at_utc: job.scheduled_run_at,
        attempt_number: job.attempts,
        max_attempts: job.max_attempts,
        status_code: job.status_code,
        response: job.response.as_deref(),
        response_truncated: job.response_truncated,
        started_at_utc: job.started_at,
        completed_at_utc: job.completed_at,
        duration_ms: job.duration_ms,
        error_code: job.error_code.map(|code| code.as_str()),
        error_message: job.error_message.as_deref(),
    }
}

fn incident_body(alert: &IncidentAlert) -> IncidentBody<'_> {
    IncidentBody {
        host: &alert.host,
        schedules: alert.schedules,
        failing: alert.failing,
        failures: alert.failures,
        names: &alert.names,
        since_utc: alert.since,
        until_utc: alert.until,
        error: alert.error.as_deref(),
    }
}

fn digest_body(alert: &DigestAlert) -> DigestBody<'_> {
    DigestBody {
        total: alert.total(),
        counts: KindCounts(&alert.counts),
        names: &alert.names,
        since_utc: alert.since,
        until_utc: alert.until,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::channels::samples::{assert_snapshot, hostile};

    fn read(alert: &Alert) -> Value {
        serde_json::from_slice(&body(alert)).expect("JSON")
    }

    #[test]
    fn snapshot() {
        assert_snapshot("webhook", |alert| {
            serde_json::to_string_pretty(&event(alert)).expect("JSON")
        });
    }

    #[test]
    fn foreign_text_stays_text_and_the_body_is_small() {
        for kind in AlertKind::ALL {
            let alert = hostile(*kind);
            let body = read(&alert);
            assert_eq!(body["type"], kind.as_str());
            if let Subject::Job(job) = &alert.subject {
                assert_eq!(body["data"]["schedule"]["name"], job.schedule.name);
                assert_eq!(
                    body["data"]["job"]["errorMessage"],
                    job.job.error_message.as_deref().unwrap_or_default()
                );
            }
            assert!(super::body(&alert).len() < 20_000, "the limit of Standard Webhooks");
        }
    }
}
