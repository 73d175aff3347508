//! Parts that several pages have: fields of forms, states, tables without rows.

use maud::{Markup, html};

use super::form::FormMessages;
use super::time;
use super::visitor::Visitor;
use crate::accounts::AccountOverview;
use crate::domain::job::{JobStatus, Trigger};

/// A field of a form.
#[derive(Clone, Copy)]
pub(super) struct FormField<'a> {
    pub(super) name: &'a str,
    pub(super) label: &'a str,
    pub(super) hint: &'a str,
    pub(super) value: &'a str,
    pub(super) is_required: bool,
    /// `true` if browsers must not remember the input.
    pub(super) is_secret: bool,
}

impl<'a> FormField<'a> {
    pub(super) fn new(name: &'a str, label: &'a str, value: &'a str) -> Self {
        Self { name, label, hint: "", value, is_required: false, is_secret: false }
    }

    pub(super) fn hint(self, hint: &'a str) -> Self {
        Self { hint, ..self }
    }

    pub(super) fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    pub(super) fn secret(self, is_secret: bool) -> Self {
        Self { is_secret, ..self }
    }

    /// Renders the label, the control, the hint and the message, which are connected for screen
    /// readers. `control` gets the ids of the texts that describe it.
    fn frame(&self, messages: &FormMessages, control: &Markup) -> Markup {
        let message = messages.of(self.name);
        html! {
            div.field.wrong[message.is_some()] {
                label for=(self.name) { (self.label) }
                (control)
                @if !self.hint.is_empty() { p.hint id={ (self.name) "-hint" } { (self.hint) } }
                @if let Some(message) = message {
                    p.message id={ (self.name) "-message" } { (message) }
                }
            }
        }
    }

    fn described_by(&self, messages: &FormMessages) -> Option<String> {
        let hint = (!self.hint.is_empty()).then(|| format!("{}-hint", self.name));
        let message = messages.of(self.name).map(|_| format!("{}-message", self.name));
        let ids: Vec<String> = message.into_iter().chain(hint).collect();
        (!ids.is_empty()).then(|| ids.join(" "))
    }

    /// Renders an input of one line. `kind` is its type, such as `text` or `email`, or
    /// `new-password`.
    pub(super) fn input(&self, kind: &str, messages: &FormMessages) -> Markup {
        let is_wrong = messages.of(self.name).map(|_| "true");
        let (kind, completion) = match kind {
            "email" => (kind, Some("username")),
            "password" => (kind, Some("current-password")),
            "new-password" => ("password", Some(kind)),
            _ => (kind, self.is_secret.then_some("off")),
        };
        self.frame(
            messages,
            &html! {
                input id=(self.name) name=(self.name) type=(kind) value=(self.value)
                    required[self.is_required] autocomplete=[completion]
                    aria-invalid=[is_wrong] aria-describedby=[self.described_by(messages)];
            },
        )
    }

    /// Renders an input of several lines.
    pub(super) fn area(&self, rows: u8, messages: &FormMessages) -> Markup {
        let is_wrong = messages.of(self.name).map(|_| "true");
        self.frame(
            messages,
            &html! {
                textarea id=(self.name) name=(self.name) rows=(rows) required[self.is_required]
                    aria-invalid=[is_wrong] aria-describedby=[self.described_by(messages)] {
                    // A browser drops the first line break of the text.
                    "\n" (self.value)
                }
            },
        )
    }

    /// Renders a choice. Each option has a value and a text.
    pub(super) fn select(&self, options: &[(&str, &str)], messages: &FormMessages) -> Markup {
        let is_wrong = messages.of(self.name).map(|_| "true");
        self.frame(
            messages,
            &html! {
                select id=(self.name) name=(self.name)
                    aria-invalid=[is_wrong] aria-describedby=[self.described_by(messages)] {
                    @for (value, text) in options {
                        option value=(value) selected[*value == self.value] { (text) }
                    }
                }
            },
        )
    }
}

/// Renders the message above a form, as an alert for screen readers.
pub(super) fn general_message(messages: &FormMessages) -> Markup {
    html! {
        @if let Some(text) = &messages.general {
            p.message.general role="alert" { (text) }
        }
    }
}

/// Renders a button that makes a change.
pub(super) fn action(path: &str, text: &str, class: &str) -> Markup {
    html! {
        form.inline method="post" action=(path) { button class=(class) type="submit" { (text) } }
    }
}

/// Returns the class of a job's status, which gives its colour.
pub(super) fn status_class(status: JobStatus) -> &'static str {
    match status {
        JobStatus::Pending => "pending",
        JobStatus::Running => "running",
        JobStatus::Success => "success",
        JobStatus::Failed => "failed",
    }
}

/// Returns the name of a job's status.
pub(super) fn status_name(status: JobStatus) -> &'static str {
    match status {
        JobStatus::Pending => "Pending",
        JobStatus::Running => "Running",
        JobStatus::Success => "Success",
        JobStatus::Failed => "Failed",
    }
}

/// Renders the status of a job as a word with a colour.
pub(super) fn status(status: JobStatus) -> Markup {
    html! { span class={ "state " (status_class(status)) } { (status_name(status)) } }
}

/// Returns the name of a trigger.
pub(super) fn trigger_name(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::Schedule => "Schedule",
        Trigger::Manual => "Manual",
        Trigger::CatchUp => "Catch-up",
        Trigger::Retry => "Retry",
    }
}

/// Renders a notice if the account is suspended or has used up its jobs of the month.
pub(super) fn account_notes(visitor: &Visitor, overview: &AccountOverview) -> Markup {
    html! {
        @if let Some(at) = overview.account.suspended_at {
            p.message.general {
                "The account was suspended on " (time::instant(at, visitor.zone)) ". Nothing runs \
                 and nothing can be changed. Ask the operator of this installation."
            }
        }
        @if let Some(at) = overview.quota_exhausted_at() {
            p.message.general {
                "The jobs of the plan for this month were used up on "
                (time::instant(at, visitor.zone)) ". Runs are skipped until the month ends (UTC)."
            }
        }
    }
}

/// Renders the box of a list without entries, which names the next step.
pub(super) fn empty(text: &str, step: &Markup) -> Markup {
    html! { div.empty { p { (text) } (step) } }
}

/// Renders a text with a button that copies it. The script shows the button.
pub(super) fn copyable(text: &str) -> Markup {
    html! {
        div.copy {
            pre { code { (text) } }
            button.quiet type="button" data-copy hidden { "Copy" }
        }
    }
}

/// Renders a filter of a list: a choice among values with their texts, or all.
pub(super) fn filter<'a>(
    label: &str,
    name: &str,
    options: impl IntoIterator<Item = (&'a str, &'a str)>,
    chosen: &str,
) -> Markup {
    html! {
        label {
            (label)
            select name=(name) {
                option value="" { "All" }
                @for (value, text) in options {
                    option value=(value) selected[value == chosen] { (text) }
                }
            }
        }
    }
}

/// Renders a command for a shell. The summary says what it does.
pub(super) fn curl(summary: &str, command: &str) -> Markup {
    html! {
        details.curl {
            summary { (summary) }
            (copyable(command))
        }
    }
}

/// Renders the links to the pages before and after this one.
pub(super) fn pager(before: Option<String>, after: Option<String>) -> Markup {
    html! {
        @if before.is_some() || after.is_some() {
            nav.pager aria-label="Pages" {
                @if let Some(path) = before { a rel="prev" href=(path) { "← Newer" } }
                @if let Some(path) = after { a rel="next" href=(path) { "Older →" } }
            }
        }
    }
}
