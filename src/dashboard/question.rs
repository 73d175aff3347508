//! The confirmation page of a change that cannot be undone. It is the answer to the form of the
//! change, so it needs no script.

use axum::response::Response;
use maud::{Markup, html};

use super::form::FormFields;
use super::visitor::Visitor;
use super::{DashboardParts, shell};

/// The field of a form whose change was confirmed.
const SURE: &str = "sure";

/// A question before a change.
pub(super) struct Question<'a> {
    /// The current entry of the navigation.
    pub(super) entry: &'a str,
    /// The question, which is the heading of the page.
    pub(super) title: &'a str,
    /// The consequences.
    pub(super) text: &'a str,
    /// The address of the change below `/dashboard`.
    pub(super) page: &'a str,
    /// The fields of the change, which are sent again.
    pub(super) fields: &'a [(&'a str, &'a str)],
    /// The text of the button that makes the change.
    pub(super) button: &'a str,
    /// The text of the link that cancels the change, and its page below `/dashboard`.
    pub(super) keep: (&'a str, &'a str),
}

/// Returns `true` if the confirmation page sent the form of the change.
pub(super) fn is_sure(fields: &FormFields) -> bool {
    fields.has(SURE)
}

/// Renders the field of a form whose change needs no further confirmation.
pub(super) fn sure() -> Markup {
    html! { input type="hidden" name=(SURE) value="true"; }
}

/// Returns the text of the choice with this value.
pub(super) fn choice_words(choices: &[(&str, &'static str)], value: &str) -> &'static str {
    choices.iter().find(|(its, _)| *its == value).map_or("", |(_, words)| *words)
}

/// Renders the confirmation page.
pub(super) fn ask(
    dashboard: &DashboardParts,
    visitor: &Visitor,
    question: &Question<'_>,
) -> Response {
    let (keep, back) = question.keep;
    let content = html! {
        h1 { (question.title) }
        p { (question.text) }
        form.actions method="post" action=(visitor.action(dashboard, question.page)) {
            (sure())
            @for (name, value) in question.fields {
                input type="hidden" name=(name) value=(value);
            }
            button.danger type="submit" { (question.button) }
            a.button.second href=(dashboard.path(back)) { (keep) }
        }
    };
    shell::page(dashboard, visitor, (question.entry, question.button), &content)
}
