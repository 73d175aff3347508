//! The controls of the form of a schedule.

use std::iter::repeat_n;

use maud::{Markup, html};

use super::{input, worst_case};
use crate::dashboard::form::{FormFields, FormMessages};
use crate::dashboard::widgets::FormField;
use crate::dashboard::{DashboardParts, zones};
use crate::domain::schedule::{HttpMethod, UnreadableFields};

/// The handling of overlapping ticks, in words.
pub(super) const OVERLAP: [(&str, &str); 3] = [
    ("allow", "Run both at the same time"),
    ("skip", "Skip the new run"),
    ("queue_one", "Queue one run, skip further ones"),
];
/// The handling of late ticks, in words.
pub(super) const CATCH_UP: [(&str, &str); 3] = [
    ("last", "Run once, for the newest missed time"),
    ("all", "Run for each missed time, up to 100"),
    ("skip", "Do not run"),
];
const ATTEMPTS: [(&str, &str); 10] = [
    ("1", "1, no retry"),
    ("2", "2"),
    ("3", "3"),
    ("4", "4"),
    ("5", "5"),
    ("6", "6"),
    ("7", "7"),
    ("8", "8"),
    ("9", "9"),
    ("10", "10"),
];
/// The minimum numbers of rows for headers, and of empty ones. Without script no row can be added.
const ROWS: usize = 4;
const EMPTY_ROWS: usize = 2;

/// Renders the name and the description.
pub(super) fn name(fields: &FormFields, messages: &FormMessages) -> Markup {
    html! {
        (FormField::new("name", "Name", fields.text("name")).required().input("text", messages))
        (FormField::new("description", "Description", fields.text("description")).area(2, messages))
    }
}

/// Renders the request that is sent.
pub(super) fn request(
    fields: &FormFields,
    messages: &FormMessages,
    lost: UnreadableFields,
) -> Markup {
    let methods: Vec<_> = HttpMethod::ALL.iter().map(|one| (one.as_str(), one.as_str())).collect();
    html! {
        fieldset {
            legend { "Request" }
            (FormField::new("endpoint", "URL", fields.text("endpoint"))
                .required().input("url", messages))
            (FormField::new("httpMethod", "Method", fields.text("httpMethod"))
                .select(&methods, messages))
            (header_rows(fields, messages))
            (FormField::new("body", "Body", fields.text("body"))
                .hint("At most 256 KiB. A GET request is sent without it.").area(6, messages))
            @if lost.body || lost.headers {
                p.note {
                    "The stored " (lost_secrets(lost)) " cannot be decrypted. Enter the value \
                     again, or remove it."
                }
                (check(input::DROP_UNREADABLE, "Remove what cannot be decrypted",
                    fields.has(input::DROP_UNREADABLE)))
            }
            (check("signRequests", "Sign requests, so that the target can verify the sender",
                fields.has("signRequests")))
        }
    }
}

fn lost_secrets(lost: UnreadableFields) -> &'static str {
    match (lost.body, lost.headers) {
        (true, true) => "body and headers",
        (true, false) => "body",
        _ => "headers",
    }
}

/// Renders the headers as rows, and some empty rows.
fn header_rows(fields: &FormFields, messages: &FormMessages) -> Markup {
    let mut rows = input::header_rows(fields);
    let empty = ROWS.saturating_sub(rows.len()).max(EMPTY_ROWS);
    rows.extend(repeat_n((String::new(), String::new()), empty));
    let message = messages.of("headers");
    html! {
        fieldset.wrong[message.is_some()] aria-describedby=[message.map(|_| "headers-message")] {
            legend { "Headers" }
            @for (position, (name, value)) in rows.iter().enumerate() {
                div.pair {
                    input type="text" name=(input::HEADER_NAME) value=(name) autocomplete="off"
                        aria-label={ "Name of header " (position + 1) };
                    input type="text" name=(input::HEADER_VALUE) value=(value) autocomplete="off"
                        aria-label={ "Value of header " (position + 1) };
                }
            }
            p.hint { "A name on the left, its value on the right. Save to get more rows." }
            @if let Some(message) = message { p.message #headers-message { (message) } }
        }
    }
}

/// Renders the cron expression and the time zone. `help` is the meaning of both; the script renews
/// it while the user types.
pub(super) fn timing(
    dashboard: &DashboardParts,
    fields: &FormFields,
    messages: &FormMessages,
    help: &Markup,
) -> Markup {
    html! {
        fieldset {
            legend { "Time" }
            div.columns hx-get=(dashboard.path("/schedules/cron")) hx-include="this"
                hx-trigger="input changed delay:300ms" hx-target="#cron-help" {
                (FormField::new("cronExpression", "Cron expression", fields.text("cronExpression"))
                    .required().input("text", messages))
                (zones::field(dashboard, fields, messages))
            }
            div #cron-help aria-live="polite" { (help) }
            button.quiet type="submit" name="show-runs" value="true" formnovalidate {
                "Show the next runs"
            }
        }
    }
}

/// Renders what counts as success, retries, and the handling of overlapping and late runs.
pub(super) fn rules(
    dashboard: &DashboardParts,
    fields: &FormFields,
    messages: &FormMessages,
) -> Markup {
    html! {
        fieldset {
            legend { "Success and retries" }
            (FormField::new("expectedStatusCodes", "Expected status codes",
                fields.text("expectedStatusCodes"))
                .hint("For example 200-299,410. If empty, every status below 400.")
                .input("text", messages))
            div.columns hx-get=(dashboard.path("/schedules/worst-case")) hx-include="this"
                hx-trigger="input changed delay:300ms" hx-target="#worst-case" {
                (FormField::new("maxRetries", "Maximum attempts", fields.text("maxRetries"))
                    .select(&ATTEMPTS, messages))
                (FormField::new("timeoutSeconds", "Timeout of an attempt, in seconds",
                    fields.text("timeoutSeconds"))
                    .hint("1 to 300").input("number", messages))
            }
            p.hint #worst-case aria-live="polite" { (worst_case::sentence(fields, dashboard.retry)) }
        }
        fieldset {
            legend { "Overlapping and missed runs" }
            (FormField::new("overlapPolicy", "If the previous run has not finished",
                fields.text("overlapPolicy"))
                .select(&OVERLAP, messages))
            (FormField::new("catchUpPolicy", "If a run is more than 60 s late",
                fields.text("catchUpPolicy"))
                .select(&CATCH_UP, messages))
            (check("isEnabled", "Enabled: it runs by its cron expression", fields.has("isEnabled")))
        }
    }
}

/// Renders a box with its label.
pub(super) fn check(name: &str, label: &str, is_checked: bool) -> Markup {
    html! {
        div.field.check {
            input id=(name) name=(name) type="checkbox" value="true" checked[is_checked];
            label for=(name) { (label) }
        }
    }
}

/// Returns the words for a value of a choice.
pub(super) fn words(choice: &[(&str, &'static str)], value: &str) -> &'static str {
    choice.iter().find(|(name, _)| *name == value).map_or("", |(_, words)| *words)
}
