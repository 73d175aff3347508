//! The test request of a form: the request is sent once, and the form shows the whole exchange.

use maud::{Markup, html};

use crate::dashboard::form::FormMessages;
use crate::dashboard::jobs::exchange::{self, ShownRequest};
use crate::dashboard::jobs::{advice, attempts};
use crate::dashboard::text::sentence;
use crate::dashboard::visitor::Visitor;
use crate::dashboard::{DashboardParts, PageError};
use crate::domain::job::Attempt;
use crate::domain::outcome::{Failure, Outcome};
use crate::outbound::Request;
use crate::schedules::{CommandError, MAX_TEST, TestResult, TestedSchedule};

/// The name of the button that sends a test request.
pub(super) const BUTTON: &str = "test-request";

/// The id of the part of the form that shows the result.
const PANEL: &str = "test-result";

/// The answer to the button.
pub(super) enum TestAnswer {
    /// The panel with the exchange, or with the reason why there is none.
    Panel(Markup),
    /// The messages beside the fields of a form that could not be saved as it is.
    Invalid(FormMessages),
}

/// Renders the button of a form that is sent to `action`. The script replaces only the panel.
pub(super) fn button(action: &str) -> Markup {
    html! {
        button.second #send-test type="submit" name=(BUTTON) value="true" hx-post=(action)
            hx-target={ "#" (PANEL) } hx-disabled-elt="this" {
            "Send a test request now"
        }
    }
}

/// Renders the panel; it is empty before the first test.
pub(super) fn container(panel: Option<&Markup>) -> Markup {
    html! {
        div id=(PANEL) aria-live="polite" { @if let Some(panel) = panel { (panel) } }
    }
}

/// Sends the request of a form once. Only a request that is sent counts against the rate limit of
/// the account: a person who corrects a form loses none.
pub(super) async fn run(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    tested: TestedSchedule,
) -> Result<TestAnswer, PageError> {
    let account = visitor.account();
    let checked = match dashboard.schedules.check_test_request(account, tested).await {
        Ok(checked) => checked,
        Err(CommandError::Invalid(errors)) => {
            return Ok(TestAnswer::Invalid(FormMessages::of_fields(errors)));
        }
        Err(error @ (CommandError::LimitExceeded(_) | CommandError::Suspended)) => {
            return Ok(TestAnswer::Panel(refused(&error.to_string())));
        }
        Err(error) => return Err(error.into()),
    };
    if let Err(throttled) = dashboard.throttle.test_request(account, dashboard.clock.now()).await {
        let next = throttled.until.to_utc().format("%H:%M:%S UTC");
        let why = format!(
            "Your account has sent too many test requests. The next one is possible after {next}"
        );
        return Ok(TestAnswer::Panel(refused(&why)));
    }
    let result = dashboard.schedules.send_test_request(checked).await?;
    Ok(TestAnswer::Panel(panel(&result, visitor)))
}

fn refused(why: &str) -> Markup {
    html! {
        h2 { "Test request" }
        p.message { (sentence(why)) }
    }
}

fn panel(result: &TestResult, visitor: &Visitor) -> Markup {
    let failure = failure(result);
    let (class, word) =
        if failure.is_some() { ("failed", "Failed") } else { ("success", "Success") };
    html! {
        h2 { "Test request" }
        p { span class={ "state " (class) } { (word) } }
        p.hint {
            "The request was sent once, with the header Punctual-Test and a timeout of at most "
            (MAX_TEST.as_secs()) " s. It is not retried, and nothing was saved."
        }
        @if let Some(failure) = failure {
            (advice::failure(failure.code, Some(&failure.message)))
        }
        h2 { "Timeline" }
        (attempts::table(&[attempt(result)], visitor.zone))
        @if let Ok(response) = &result.exchange.result {
            h2 { "Response" }
            (exchange::received(
                response.status,
                &response.headers,
                &String::from_utf8_lossy(&response.body),
                response.truncated,
            ))
        }
        h2 { "Request" }
        (request(&result.request))
    }
}

/// Returns the reason why a job would have failed.
fn failure(result: &TestResult) -> Option<&Failure> {
    match &result.outcome {
        Outcome::Success => None,
        Outcome::Retryable(failure) | Outcome::Final(failure) => Some(failure),
    }
}

/// Returns the attempt that a job with this exchange would have.
fn attempt(result: &TestResult) -> Attempt {
    let (exchange, failure) = (&result.exchange, failure(result));
    let spent = std::time::Duration::from_millis(exchange.duration_ms.into());
    Attempt {
        number: 1,
        started_at: result.sent_at,
        completed_at: Some(result.sent_at.plus(spent)),
        duration_ms: Some(exchange.duration_ms),
        status_code: exchange.result.as_ref().ok().map(|response| response.status),
        error_code: failure.map(|failure| failure.code),
        error_message: failure.map(|failure| failure.message.clone()),
        timings: exchange.timings,
    }
}

fn request(request: &Request) -> Markup {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let headers = request.headers.iter();
    let headers = headers.map(|(name, value)| (name.to_string(), text(value.as_bytes())));
    let body = request.body.as_deref().map(text);
    let shown = ShownRequest::new(
        request.method.as_str(),
        &request.url,
        headers.collect(),
        body.as_deref(),
    );
    shown.render("The headers of the connection, such as Host, are not listed.")
}
