//! The content of an alert, shared by all channels: a headline, facts, an excerpt of the response
//! and a link.
//!
//! All text here is clean (no control characters, one line where one line is expected) and short,
//! but not escaped: each channel escapes it for its own format.

use super::durations::{local, span, utc};
use super::text::{block, cut, one_line};
use crate::domain::Timestamp;
use crate::domain::alert::AlertKind;
use crate::domain::alert::content::{
    Alert, AlertedJob, AlertedSchedule, DigestAlert, EXCERPT, IncidentAlert, JobAlert, Subject,
};
use crate::domain::endpoint::Endpoint;
use crate::domain::job::Trigger;
use crate::domain::outcome::ErrorCode;

/// The maximum length of a name in a headline, in characters: the result that follows must stay
/// visible.
const MAX_NAME: usize = 80;
/// The maximum length of a fact's value, in characters.
const MAX_VALUE: usize = 300;
/// The maximum lengths of the excerpt and of a fact's value, in characters, from the preferred
/// sizes to the smallest.
const SIZES: [(usize, usize); 5] =
    [(EXCERPT + 1, MAX_VALUE), (200, MAX_VALUE), (200, 100), (0, 100), (0, 30)];

/// The tone of an alert. Discord and mail show it as a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// A failure.
    Bad,
    /// A success or a recovery.
    Good,
    /// Neither a failure nor a success.
    Neutral,
}

/// One line of the details.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageFact {
    /// The name of the detail.
    pub label: &'static str,
    /// Its value, on one line.
    pub value: String,
    /// `true` if users or hosts wrote the value. Channels show such a value as code where possible.
    pub is_foreign: bool,
}

/// A link to a page of this installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageLink {
    /// The text of the link.
    pub label: &'static str,
    /// The URL of the page.
    pub url: String,
}

/// The content of an alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The tone of the alert.
    pub tone: Tone,
    /// A one-sentence summary of the result.
    pub headline: String,
    /// The details.
    pub facts: Vec<MessageFact>,
    /// The start of the response, which may have several lines.
    pub excerpt: Option<String>,
    /// The page with more details.
    pub link: Option<PageLink>,
    /// The time of the event.
    pub created_at: Timestamp,
}

impl Message {
    /// Creates the content of `alert`.
    pub fn new(alert: &Alert) -> Self {
        let (tone, headline, facts) = match &alert.subject {
            Subject::Job(job) => about_job(alert.kind, job),
            Subject::Incident(incident) => about_incident(alert.kind, incident),
            Subject::Digest(digest) => about_digest(digest),
            Subject::Test { label } => about_test(label, alert.created_at),
        };
        let excerpt = match &alert.subject {
            Subject::Job(job) => excerpt(&job.job),
            _ => None,
        };
        let label = match &alert.subject {
            Subject::Job(_) => "Open the job",
            _ => "Open Punctual",
        };
        let link = alert.link.clone().map(|url| PageLink { label, url });
        let facts = facts.into_iter().filter(|fact| !fact.value.is_empty()).collect();
        Self { tone, headline, facts, excerpt, link, created_at: alert.created_at }
    }

    /// Renders the message. If the result exceeds the provider's limits, it is rendered again with
    /// a shorter excerpt and shorter values.
    pub fn fitted<T>(&self, render: impl Fn(&Self) -> T, fits: impl Fn(&T) -> bool) -> T {
        let rendered = render(self);
        if fits(&rendered) {
            return rendered;
        }
        let shorter = SIZES[1..].iter().map(|(excerpt, value)| self.shortened(*excerpt, *value));
        let mut last = rendered;
        for message in shorter {
            last = render(&message);
            if fits(&last) {
                break;
            }
        }
        last
    }

    fn shortened(&self, excerpt: usize, value: usize) -> Self {
        let mut message = self.clone();
        for fact in &mut message.facts {
            fact.value = cut(&fact.value, value);
        }
        message.excerpt = message.excerpt.filter(|_| excerpt > 0).map(|text| cut(&text, excerpt));
        message
    }
}

type MessageContent = (Tone, String, Vec<MessageFact>);

/// Creates a fact in the service's own words.
fn plain(label: &'static str, value: impl Into<String>) -> MessageFact {
    MessageFact { label, value: value.into(), is_foreign: false }
}

/// Creates a fact with text of users or hosts.
fn foreign(label: &'static str, value: &str) -> MessageFact {
    MessageFact { label, value: one_line(value, MAX_VALUE), is_foreign: true }
}

/// Formats a number with its noun: `1 schedule`, `2 schedules`.
fn count(number: u32, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// Returns a name in quotation marks, cut to `MAX_NAME`; an empty name gets a placeholder.
fn quoted(name: &str) -> String {
    match one_line(name, MAX_NAME) {
        name if name.is_empty() => "A schedule without a name".to_owned(),
        name => format!("“{name}”"),
    }
}

fn about_job(kind: AlertKind, alert: &JobAlert) -> MessageContent {
    let JobAlert { schedule, job, consecutive_failures } = alert;
    let (name, result) = (quoted(&schedule.name), result(job));
    let mut facts = Vec::new();
    if one_line(&schedule.name, MAX_NAME) != one_line(&schedule.name, MAX_VALUE) {
        facts.push(foreign("Schedule", &schedule.name));
    }
    let (tone, headline) = match kind {
        AlertKind::ScheduleRecovered => {
            let failures = count(*consecutive_failures, "failure");
            facts.push(plain("Result", result));
            (Tone::Good, format!("{name} recovered after {failures}"))
        }
        AlertKind::JobSucceeded => (Tone::Good, format!("{name} succeeded: {result}")),
        _ => (Tone::Bad, format!("{name} failed: {result}")),
    };
    let requested = match job.trigger {
        Trigger::Schedule | Trigger::CatchUp => "Scheduled for",
        Trigger::Manual | Trigger::Retry => "Started by a user at",
    };
    facts.push(plain(requested, local(job.scheduled_run_at, &schedule.timezone)));
    facts.push(foreign("Request", &target(schedule)));
    if let Some(error) = &job.error_message {
        facts.push(foreign("Error", error));
    }
    if kind == AlertKind::JobFailed && *consecutive_failures > 1 {
        facts.push(plain("Failures in a row", consecutive_failures.to_string()));
    }
    (tone, headline, facts)
}

/// Returns the result of a job: `HTTP 500 after 3 attempts in 12.4 s`.
fn result(job: &AlertedJob) -> String {
    let mut text = match (job.error_code, job.status_code) {
        (None | Some(ErrorCode::HttpStatus), Some(status)) => format!("HTTP {status}"),
        (None, None) => "done".to_owned(),
        (Some(code), _) => reason(code).to_owned(),
    };
    if job.attempts > 0 {
        text += &format!(" after {}", count(u32::from(job.attempts), "attempt"));
    }
    let took = job.started_at.zip(job.completed_at).map(|(start, end)| end.since(start));
    if let Some(took) = took {
        text += &format!(" in {}", span(took));
    }
    text
}

/// Returns an error in a few words.
fn reason(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::Timeout => "timeout",
        ErrorCode::Dns => "host name not found",
        ErrorCode::Connect => "no connection",
        ErrorCode::Tls => "TLS error",
        ErrorCode::Network => "network error",
        ErrorCode::BlockedAddress => "address not allowed",
        ErrorCode::HttpStatus => "unexpected status",
        ErrorCode::WorkerLost => "worker lost",
        ErrorCode::Cancelled => "cancelled",
        ErrorCode::SecretUnreadable => "stored request unreadable",
        ErrorCode::Internal => "internal error",
    }
}

/// Returns the method, host and path: `POST api.example.com/v1/report`.
fn target(schedule: &AlertedSchedule) -> String {
    let method = schedule.http_method.as_str();
    match Endpoint::parse(&schedule.endpoint) {
        Ok(endpoint) => format!("{method} {}{}", endpoint.authority(), endpoint.url().path()),
        Err(_) => format!("{method} {}", schedule.host),
    }
}

fn excerpt(job: &AlertedJob) -> Option<String> {
    let text = block(job.response.as_deref()?, EXCERPT);
    if text.is_empty() {
        return None;
    }
    let is_marked = !job.response_truncated || text.ends_with('…');
    Some(if is_marked { text } else { text + "…" })
}

/// Joins names: `“A”, “B” and 3 more`.
fn list(names: &[String], more: u32) -> String {
    let names: Vec<_> = names.iter().map(|name| quoted(name)).collect();
    match more {
        0 => names.join(", "),
        more if names.is_empty() => count(more, "schedule"),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

fn about_incident(kind: AlertKind, alert: &IncidentAlert) -> MessageContent {
    let IncidentAlert { host, schedules, failing, failures, names, since, until, error } = alert;
    let host = one_line(host, MAX_VALUE);
    let listed = u32::try_from(names.len()).unwrap_or(u32::MAX);
    let names = list(names, schedules.saturating_sub(listed));
    let mut facts = vec![foreign("Schedules", &names), plain("Failed jobs", failures.to_string())];
    facts.push(plain("First failure", utc(*since)));
    if let Some(until) = until {
        facts.push(plain("Closed", utc(*until)));
    }
    if let Some(error) = error {
        facts.push(foreign("Last error", error));
    }
    if kind != AlertKind::IncidentClosed {
        let verb = if *failing == 1 { "fails" } else { "fail" };
        let headline = format!("{} {verb} against {host}", count(*failing, "schedule"));
        return (Tone::Bad, headline, facts);
    }
    let recovered = schedules.saturating_sub(*failing);
    let who = match failing {
        0 => count(recovered, "schedule"),
        _ => format!("{recovered} of {}", count(*schedules, "schedule")),
    };
    let verb = if (*failing, recovered) == (0, 1) { "has" } else { "have" };
    let after = until.map(|until| format!(" after {}", span(until.since(*since))));
    let headline = format!("{host}: {who} {verb} recovered{}", after.unwrap_or_default());
    (Tone::Good, headline, facts)
}

fn about_digest(alert: &DigestAlert) -> MessageContent {
    let parts: Vec<_> = alert.counts.iter().map(|(kind, number)| part(*kind, *number)).collect();
    let took = alert.until.since(alert.since);
    let within = match took.as_secs() {
        ..=60 => "the last minute".to_owned(),
        _ => span(took),
    };
    let total = count(alert.total(), "more alert");
    let headline = format!("{total} in {within}: {}", parts.join(", "));
    let facts = vec![
        foreign("Among them", &list(&alert.names, 0)),
        plain("First", utc(alert.since)),
        plain("Last", utc(alert.until)),
    ];
    (Tone::Neutral, headline, facts)
}

fn part(kind: AlertKind, number: u32) -> String {
    match kind {
        AlertKind::JobFailed => format!("{number} failed"),
        AlertKind::JobSucceeded => format!("{number} succeeded"),
        AlertKind::ScheduleRecovered => format!("{number} recovered"),
        AlertKind::IncidentOpened => format!("{} opened", count(number, "incident")),
        AlertKind::IncidentClosed => format!("{} closed", count(number, "incident")),
        AlertKind::Digest => count(number, "digest"),
        AlertKind::ChannelTest => count(number, "test"),
    }
}

fn about_test(label: &str, at: Timestamp) -> MessageContent {
    let headline = match one_line(label, MAX_NAME) {
        label if label.is_empty() => "Test notification".to_owned(),
        label => format!("Test notification for “{label}”"),
    };
    let note = "This channel works. Alerts will arrive here.";
    (Tone::Neutral, headline, vec![plain("Result", note), plain("Sent", utc(at))])
}
