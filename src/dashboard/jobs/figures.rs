//! Values of jobs that several pages show in the same words.

use maud::{Markup, html};

use super::advice;
use crate::dashboard::time;
use crate::domain::job::Job;
use crate::domain::outcome::ErrorCode;

/// Returns the time from the scheduled instant to the first attempt.
pub(super) fn start_lag(job: &Job) -> Option<String> {
    let lag = job.started_at?.since(job.scheduled_run_at);
    Some(time::millis(u32::try_from(lag.as_millis()).unwrap_or(u32::MAX)))
}

/// Returns a duration, or a dash if there is none.
pub(super) fn span(ms: Option<u32>) -> String {
    ms.map_or_else(|| "–".to_owned(), time::millis)
}

/// Renders the status code of a response and the failure in a few words.
pub(super) fn result(status: Option<u16>, error: Option<ErrorCode>) -> Markup {
    html! {
        @if let Some(status) = status { (status) }
        @if let Some(error) = error { span.sub { (advice::short(error)) } }
        @if status.is_none() && error.is_none() { "–" }
    }
}
