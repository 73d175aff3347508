//! The content of an alert, before a channel renders it.
//!
//! Everything here is safe to send: secrets are masked, the URL has no query, and the response is
//! an excerpt. Text that users wrote is not escaped: each channel escapes it for its own format.

use super::{AlertKind, Mask};
use crate::domain::endpoint::Endpoint;
use crate::domain::job::{Job, JobStatus, Trigger};
use crate::domain::outcome::ErrorCode;
use crate::domain::schedule::{Definition, HttpMethod};
use crate::domain::{AccountId, EventId, JobId, ScheduleId, Timestamp};

/// The maximum length of a response in an alert, in characters.
pub const EXCERPT: usize = 500;

/// An alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// The event's id. It is the same on every try, so that receivers recognize duplicates.
    pub id: EventId,
    /// The kind of event.
    pub kind: AlertKind,
    /// The time of the event.
    pub created_at: Timestamp,
    /// The account that owns it.
    pub account: AccountId,
    /// The subject of the alert.
    pub subject: Subject,
    /// The web page about it, if this installation has a public address.
    pub link: Option<String>,
}

/// The subject of an alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A job: `job.failed`, `job.succeeded`, `schedule.recovered`.
    Job(Box<JobAlert>),
    /// A host: `incident.opened`, `incident.closed`.
    Incident(IncidentAlert),
    /// Many alerts: `digest`.
    Digest(DigestAlert),
    /// A channel: `channel.test`.
    Test {
        /// The channel's label.
        label: String,
    },
}

/// The schedule of an alert, as it was when the job was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertedSchedule {
    /// The schedule's id.
    pub id: ScheduleId,
    /// Its name when the job ended.
    pub name: String,
    /// Its cron expression.
    pub cron_expression: String,
    /// Its timezone, an IANA name.
    pub timezone: String,
    /// Its URL without query and fragment.
    pub endpoint: String,
    /// The host of the URL, with its port unless that is the scheme's default.
    pub host: String,
    /// The request's method.
    pub http_method: HttpMethod,
}

/// The job of an alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertedJob {
    /// The job's id.
    pub id: JobId,
    /// SUCCESS or FAILED.
    pub status: JobStatus,
    /// The trigger of the job.
    pub trigger: Trigger,
    /// The tick, or the time of the user's call.
    pub scheduled_run_at: Timestamp,
    /// The number of attempts made.
    pub attempts: u8,
    /// The maximum number of attempts.
    pub max_attempts: u8,
    /// The last response's status code.
    pub status_code: Option<u16>,
    /// The first [`EXCERPT`] characters of the last response, secrets masked.
    pub response: Option<String>,
    /// `true` if the response was longer.
    pub response_truncated: bool,
    /// The start of the first attempt.
    pub started_at: Option<Timestamp>,
    /// The end of the job.
    pub completed_at: Option<Timestamp>,
    /// The duration of the last attempt, in milliseconds.
    pub duration_ms: Option<u32>,
    /// The reason of the failure.
    pub error_code: Option<ErrorCode>,
    /// The reason as text for people, secrets masked.
    pub error_message: Option<String>,
}

/// An alert about one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobAlert {
    /// The job's schedule.
    pub schedule: AlertedSchedule,
    /// The job.
    pub job: AlertedJob,
    /// The number of failures in a row: including this one, or before the recovery.
    pub consecutive_failures: u32,
}

/// An alert about a host that many schedules fail against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncidentAlert {
    /// The host, with its port unless that is the scheme's default.
    pub host: String,
    /// The number of schedules that have failed against it, of those that alert this channel.
    pub schedules: u32,
    /// The number of those that have not succeeded since.
    pub failing: u32,
    /// The number of jobs that have failed.
    pub failures: u32,
    /// The names of the first few schedules.
    pub names: Vec<String>,
    /// The time of the first failure.
    pub since: Timestamp,
    /// The end of the incident; absent while it is open.
    pub until: Option<Timestamp>,
    /// The last failure, secrets masked.
    pub error: Option<String>,
}

/// A summary of many alerts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestAlert {
    /// The number of merged alerts by kind; kinds without alerts are left out.
    pub counts: Vec<(AlertKind, u32)>,
    /// The names of the first few schedules.
    pub names: Vec<String>,
    /// The time of the first event.
    pub since: Timestamp,
    /// The time of the last event.
    pub until: Timestamp,
}

impl DigestAlert {
    /// Returns the number of merged alerts.
    pub fn total(&self) -> u32 {
        self.counts.iter().map(|(_, count)| count).sum()
    }
}

impl JobAlert {
    /// Returns the alert about a job that has ended; `definition` is the version that the job ran.
    pub fn of(name: String, job: &Job, definition: &Definition, consecutive_failures: u32) -> Self {
        let mask = Mask::of(&definition.endpoint, definition.headers.as_deref());
        let (endpoint, host) = without_query(&definition.endpoint);
        let schedule = AlertedSchedule {
            id: job.schedule_id,
            name,
            cron_expression: definition.cron_expression.clone(),
            timezone: definition.timezone.clone(),
            endpoint,
            host,
            http_method: definition.http_method,
        };
        let response = job.response.as_deref().filter(|text| !text.is_empty());
        let excerpt = response.map(|text| excerpt(&mask.apply(text)));
        let is_cut = excerpt.as_ref().is_some_and(|(_, is_cut)| *is_cut);
        let job = AlertedJob {
            id: job.id,
            status: job.status,
            trigger: job.trigger,
            scheduled_run_at: job.scheduled_run_at,
            attempts: job.attempt_number,
            max_attempts: job.max_attempts,
            status_code: job.status_code,
            response: excerpt.map(|(text, _)| text),
            response_truncated: is_cut || job.response_truncated,
            started_at: job.started_at,
            completed_at: job.completed_at,
            duration_ms: job.duration_ms,
            error_code: job.error_code,
            error_message: job.error_message.as_deref().map(|text| mask.apply(text)),
        };
        Self { schedule, job, consecutive_failures }
    }
}

/// Returns a URL without query and fragment, and its host.
fn without_query(endpoint: &str) -> (String, String) {
    let Ok(read) = Endpoint::parse(endpoint) else { return (String::new(), String::new()) };
    let mut url = read.url().clone();
    url.set_query(None);
    (url.to_string(), read.authority().to_owned())
}

/// Returns the beginning of a text, and `true` if there was more.
fn excerpt(text: &str) -> (String, bool) {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => (text[..end].to_owned(), true),
        None => (text.to_owned(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::schedule::UnreadableFields;

    fn job(response: &str) -> Job {
        let at = Timestamp::from_millis(1_700_000_000_000);
        Job {
            id: JobId::new(at, 1),
            schedule_id: ScheduleId::new(at, 2),
            status: JobStatus::Failed,
            trigger: Trigger::Schedule,
            scheduled_run_at: at,
            attempt_number: 3,
            max_attempts: 3,
            next_attempt_at: None,
            http_method: HttpMethod::Post,
            endpoint: String::new(),
            body: None,
            headers: None,
            unreadable: UnreadableFields::default(),
            status_code: Some(500),
            response: Some(response.to_owned()),
            response_headers: None,
            response_truncated: false,
            started_at: Some(at),
            completed_at: Some(at),
            duration_ms: Some(12),
            error_code: Some(ErrorCode::HttpStatus),
            error_message: Some("no t0ken-of-mine for you".to_owned()),
            created_at: at,
            updated_at: at,
        }
    }

    fn definition() -> Definition {
        Definition {
            cron_expression: "* * * * *".to_owned(),
            timezone: "UTC".to_owned(),
            endpoint: "https://API.example:8443/a/b?key=s3cret-in-query#c".to_owned(),
            http_method: HttpMethod::Post,
            body: None,
            headers: Some(r#"{"Authorization":"Bearer t0ken-of-mine"}"#.to_owned()),
            max_retries: 3,
            timeout_seconds: 30,
            expected_status_codes: None,
            sign_requests: false,
        }
    }

    #[test]
    fn no_secret_of_the_request_is_revealed() {
        let job = job("you sent Bearer t0ken-of-mine and s3cret-in-query");
        let alert = JobAlert::of("Nightly".to_owned(), &job, &definition(), 4);
        assert_eq!(alert.schedule.endpoint, "https://api.example:8443/a/b");
        assert_eq!(alert.schedule.host, "api.example:8443");
        assert_eq!(alert.job.response.as_deref(), Some("you sent ••• and •••"));
        assert_eq!(alert.job.error_message.as_deref(), Some("no ••• for you"));
    }

    #[test]
    fn a_long_response_is_cut_between_characters() {
        let alert = JobAlert::of(String::new(), &job(&"ü".repeat(EXCERPT + 1)), &definition(), 1);
        assert_eq!(alert.job.response, Some("ü".repeat(EXCERPT)));
        assert!(alert.job.response_truncated);
        let alert = JobAlert::of(String::new(), &job(""), &definition(), 1);
        assert_eq!((alert.job.response, alert.job.response_truncated), (None, false));
    }
}
