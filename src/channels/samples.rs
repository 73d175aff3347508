//! Sample alerts for tests, and snapshots of their renderings.

use crate::domain::alert::AlertKind;
use crate::domain::alert::content::{
    Alert, AlertedJob, AlertedSchedule, DigestAlert, IncidentAlert, JobAlert, Subject,
};
use crate::domain::job::{JobStatus, Trigger};
use crate::domain::outcome::ErrorCode;
use crate::domain::schedule::HttpMethod;
use crate::domain::{AccountId, EventId, JobId, ScheduleId, Timestamp};

/// A text with a special meaning in each of the formats.
pub const HOSTILE: &str = "<script>alert(1)</script> *bold* _it_ ~no~ `code` <!channel> <@U123> \
    @here @everyone @ann <http://evil.example|click> [click](http://evil.example) http://evil.example/x \
    </pre></code> ``` a\r\nBcc: x@y.example\r\n\r\nbody \0\u{1b}[31m \u{202e}evil\u{202c} \u{200b} &lt; \" ' \\";

pub fn at(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

pub fn account() -> AccountId {
    AccountId::new(at("2024-01-01T00:00:00Z"), 1)
}

/// Returns an alert of this kind as a busy installation would raise it.
pub fn alert(kind: AlertKind) -> Alert {
    let created_at = at("2024-05-15T12:00:42.500Z");
    let link = Some("https://punctual.example/app/dashboard/jobs/job_01".to_owned());
    let subject = match kind {
        AlertKind::JobFailed => job(kind, failed_job()),
        AlertKind::JobSucceeded | AlertKind::ScheduleRecovered => job(kind, succeeded_job()),
        AlertKind::IncidentOpened => Subject::Incident(incident(None)),
        AlertKind::IncidentClosed => Subject::Incident(incident(Some("2024-05-15T12:14:03Z"))),
        AlertKind::Digest => Subject::Digest(digest()),
        AlertKind::ChannelTest => Subject::Test { label: "Ops".to_owned() },
    };
    let link = link.filter(|_| kind != AlertKind::ChannelTest);
    let id = EventId::new(created_at, 3);
    Alert { id, kind, created_at, account: account(), subject, link }
}

/// Returns an alert whose texts are all hostile and as long as allowed.
pub fn hostile(kind: AlertKind) -> Alert {
    let text = || format!("{HOSTILE} {HOSTILE}");
    let names = || vec![text(); 10];
    let mut alert = alert(kind);
    match &mut alert.subject {
        Subject::Job(job) => {
            job.schedule.name = text();
            job.job.response = Some(text().chars().take(500).collect());
            job.job.error_message = Some(text());
        }
        Subject::Incident(incident) => {
            (incident.names, incident.error) = (names(), Some(text()));
        }
        Subject::Digest(digest) => digest.names = names(),
        Subject::Test { label } => *label = text(),
    }
    alert
}

fn job(kind: AlertKind, job: AlertedJob) -> Subject {
    let consecutive_failures = if kind == AlertKind::JobSucceeded { 0 } else { 5 };
    let schedule = AlertedSchedule {
        id: ScheduleId::new(at("2024-01-02T00:00:00Z"), 4),
        name: "Nightly report".to_owned(),
        cron_expression: "0 14 * * *".to_owned(),
        timezone: "Europe/Berlin".to_owned(),
        endpoint: "https://api.example.com/v1/report".to_owned(),
        host: "api.example.com".to_owned(),
        http_method: HttpMethod::Post,
    };
    Subject::Job(Box::new(JobAlert { schedule, job, consecutive_failures }))
}

fn failed_job() -> AlertedJob {
    let due = at("2024-05-15T12:00:00Z");
    AlertedJob {
        id: JobId::new(due, 5),
        status: JobStatus::Failed,
        trigger: Trigger::Schedule,
        scheduled_run_at: due,
        attempts: 3,
        max_attempts: 3,
        status_code: Some(500),
        response: Some("{\n  \"error\": \"no space left on <disk> & no quota\"\n}\n".to_owned()),
        response_truncated: true,
        started_at: Some(at("2024-05-15T12:00:30.100Z")),
        completed_at: Some(at("2024-05-15T12:00:42.500Z")),
        duration_ms: Some(812),
        error_code: Some(ErrorCode::HttpStatus),
        error_message: Some("the endpoint answered with status 500".to_owned()),
    }
}

fn succeeded_job() -> AlertedJob {
    AlertedJob {
        status: JobStatus::Success,
        attempts: 1,
        status_code: Some(200),
        response: Some("ok: 214 rows".to_owned()),
        response_truncated: false,
        started_at: Some(at("2024-05-15T12:00:42.270Z")),
        error_code: None,
        error_message: None,
        ..failed_job()
    }
}

fn incident(until: Option<&str>) -> IncidentAlert {
    IncidentAlert {
        host: "api.example.com".to_owned(),
        schedules: 12,
        failing: if until.is_some() { 0 } else { 12 },
        failures: 31,
        names: ["Nightly report", "Sync orders", "Warm the cache"].map(str::to_owned).to_vec(),
        since: at("2024-05-15T12:00:00Z"),
        until: until.map(at),
        error: Some("the host refused the connection".to_owned()),
    }
}

fn digest() -> DigestAlert {
    DigestAlert {
        counts: vec![(AlertKind::JobFailed, 200), (AlertKind::JobSucceeded, 14)],
        names: ["Nightly report", "Sync orders", "Warm the cache"].map(str::to_owned).to_vec(),
        since: at("2024-05-15T11:59:42Z"),
        until: at("2024-05-15T12:00:41Z"),
    }
}

/// Compares the renderings of all alert kinds with the snapshot file of this channel. Invisible
/// characters are written as escapes.
pub fn assert_snapshot(channel: &str, render: impl Fn(&Alert) -> String) {
    let mut rendered = String::new();
    for kind in AlertKind::ALL {
        let text = render(&alert(*kind)).replace('\u{2060}', "\\u2060");
        rendered += &format!("=== {kind}\n{}\n\n", text.trim_end());
    }
    let path = format!("{}/src/channels/snapshots/{channel}.txt", env!("CARGO_MANIFEST_DIR"));
    if option_env!("PUNCTUAL_REFRESH_SNAPSHOTS").is_some() {
        std::fs::write(&path, &rendered).expect("the snapshot can be written");
    }
    let snapshot = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        snapshot == rendered,
        "{path} is not what {channel} renders; if the change is meant, run\n\
         PUNCTUAL_REFRESH_SNAPSHOTS=1 cargo test --lib channels:: and review the file\n\n{rendered}"
    );
}
