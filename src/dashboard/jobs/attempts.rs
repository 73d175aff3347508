//! The attempts of a job as a timeline: how long each phase took.

use maud::{Markup, html};

use super::figures::{result, span};
use crate::dashboard::table;
use crate::dashboard::table::Column::{Number, Text};
use crate::dashboard::text::sentence;
use crate::dashboard::time::{self, ShownZone};
use crate::domain::job::Attempt;

/// The width of the drawing of the longest attempt.
const WIDTH: u64 = 1_000;

/// Renders the attempts, with the phases of each as numbers and as a bar.
pub(in crate::dashboard) fn table(attempts: &[Attempt], zone: ShownZone) -> Markup {
    let longest = attempts.iter().map(total).max().unwrap_or(0).max(1);
    html! {
        (table::render(
            "Attempts and the duration of their phases",
            &[
                Text("Attempt"),
                Text("Started"),
                Number("Resolve"),
                Number("Connect, TLS"),
                Number("First byte"),
                Number("Body"),
                Number("Total"),
                Text("Result"),
            ],
            &html! {
                @for attempt in attempts { (row(attempt, longest, zone)) }
            },
        ))
        p.hint { "An attempt on a reused connection has no resolve and connect phases." }
    }
}

fn row(attempt: &Attempt, longest: u64, zone: ShownZone) -> Markup {
    let timings = attempt.timings;
    html! {
        tr {
            th scope="row" { (attempt.number) (bar(attempt, longest)) }
            td { (time::instant(attempt.started_at, zone)) }
            td.number { (span(timings.dns_ms)) }
            td.number { (span(timings.connect_ms)) }
            td.number { (span(timings.first_byte_ms)) }
            td.number { (span(timings.body_ms)) }
            td.number { (span(attempt.duration_ms)) }
            td {
                @if attempt.completed_at.is_none() {
                    "In progress"
                } @else if attempt.error_code.is_none() {
                    "Success " (result(attempt.status_code, None))
                } @else {
                    @match &attempt.error_message {
                        Some(message) => {
                            @if let Some(status) = attempt.status_code { (status) }
                            span.sub { (sentence(message)) }
                        }
                        None => { (result(attempt.status_code, attempt.error_code)) }
                    }
                }
            }
        }
    }
}

/// Draws the phases one after the other. The numbers beside it say the same.
fn bar(attempt: &Attempt, longest: u64) -> Markup {
    let mut from = 0;
    let phases = phases(attempt).map(|(class, ms)| {
        let (start, width) = (from * WIDTH / longest, ms * WIDTH / longest);
        from += ms;
        (class, start, width)
    });
    html! {
        svg.phases viewBox="0 0 1000 10" preserveAspectRatio="none"
            aria-hidden="true" focusable="false" {
            @for (class, start, width) in phases {
                rect class=(class) x=(start) y="0" width=(width) height="10" {}
            }
        }
    }
}

fn phases(attempt: &Attempt) -> [(&'static str, u64); 4] {
    let timings = attempt.timings;
    let ms = |phase: Option<u32>| u64::from(phase.unwrap_or(0));
    [
        ("resolve", ms(timings.dns_ms)),
        ("connect", ms(timings.connect_ms)),
        ("first-byte", ms(timings.first_byte_ms)),
        ("body", ms(timings.body_ms)),
    ]
}

/// Returns the length of an attempt, in milliseconds.
fn total(attempt: &Attempt) -> u64 {
    let phases: u64 = phases(attempt).iter().map(|(_, ms)| ms).sum();
    phases.max(u64::from(attempt.duration_ms.unwrap_or(0)))
}
