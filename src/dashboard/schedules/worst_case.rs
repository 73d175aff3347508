//! The longest duration of a job, if no attempt gets an answer, in words.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use maud::html;

use crate::dashboard::Dashboard;
use crate::dashboard::form::FormFields;
use crate::dashboard::shell::html_response;
use crate::dashboard::visitor::Visitor;
use crate::domain::retry::RetryPolicy;

/// Answers with the sentence that the script puts below the fields.
pub(super) async fn show(
    State(dashboard): State<Dashboard>,
    _: Visitor,
    fields: FormFields,
) -> Response {
    html_response(StatusCode::OK, html! { (sentence(&fields, dashboard.retry)) })
}

/// Returns the worst case of the attempts and the timeout of a form. The waits are those of the
/// policy, without jitter.
pub(super) fn sentence(fields: &FormFields, policy: RetryPolicy) -> String {
    let number = |name: &str| fields.text(name).trim().parse::<i64>().ok();
    let attempts = number("maxRetries").unwrap_or(3).clamp(1, 10);
    let attempts = u8::try_from(attempts).expect("at most 10");
    let timeout = number("timeoutSeconds").unwrap_or(30).clamp(1, 300);
    let timeout = Duration::from_secs(timeout.unsigned_abs());
    if attempts == 1 {
        return format!(
            "The job fails if its only attempt has no answer after {}.",
            words(timeout)
        );
    }
    let wait = |attempt| policy.next(attempt, attempts, 0.0, None);
    let waits: Duration = (1..attempts).filter_map(wait).sum();
    format!(
        "If no attempt gets an answer, the job fails after at most {}: {attempts} attempts of up to \
         {}, and waits of up to {} in total. An answer with Retry-After can postpone an attempt by \
         up to 1 h.",
        words(timeout * u32::from(attempts) + waits),
        words(timeout),
        words(waits),
    )
}

/// Returns a duration in minutes and seconds.
fn words(span: Duration) -> String {
    match (span.as_secs() / 60, span.as_secs() % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, 0) => format!("{minutes} min"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(attempts: &str, timeout: &str) -> String {
        let pairs = [("maxRetries", attempts), ("timeoutSeconds", timeout)];
        sentence(&FormFields::of(pairs), RetryPolicy::default())
    }

    #[test]
    fn the_worst_case_counts_attempts_and_waits() {
        assert!(of("3", "30").contains("after at most 1 min 36 s: 3 attempts of up to 30 s"));
        assert!(of("1", "60").contains("after 1 min."));
        assert!(of("x", "-5").contains("3 attempts of up to 1 s"), "defaults and limits");
    }
}
