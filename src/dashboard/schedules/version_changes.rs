//! The fields in which a version of a schedule differs from another one, as pages show them. Values
//! that may be secret are masked, as on the page of the schedule.

use std::collections::BTreeSet;

use maud::{Markup, html};

use crate::dashboard::table;
use crate::dashboard::table::Column::Text;
use crate::dashboard::text::read_headers;
use crate::domain::alert::{masked_header, masked_url};
use crate::domain::schedule::{Definition, UnreadableFields};

/// The maximum length of a shown part of a body, in bytes.
const EXCERPT: usize = 600;
/// The length of the part of a cut body before the first difference, in bytes.
const CONTEXT: usize = 100;

/// The value of a field in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
enum VersionValue {
    Absent,
    Unreadable,
    Words(String),
    Code(String),
    /// A part of a body, and a note if it is not the whole.
    Body {
        part: String,
        note: Option<String>,
    },
}

/// A field that differs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FieldChange {
    field: String,
    old: VersionValue,
    new: VersionValue,
}

/// A definition, and its fields that cannot be decrypted.
pub(super) type ReadableDefinition<'a> = (&'a Definition, UnreadableFields);

/// Returns the fields in which `new` differs from `old`, in the order of the form.
pub(super) fn changes(
    old: ReadableDefinition<'_>,
    new: ReadableDefinition<'_>,
) -> Vec<FieldChange> {
    let ((before, lost), (after, lost_after)) = (old, new);
    let mut changes: Vec<FieldChange> = fields(before)
        .into_iter()
        .zip(fields(after))
        .filter(|((_, old, _), (_, new, _))| old != new)
        .map(|((field, _, old), (_, _, new))| FieldChange { field: field.into(), old, new })
        .collect();
    if lost.body || lost_after.body || before.body != after.body {
        let [old, new] = bodies((before, lost.body), (after, lost_after.body));
        changes.push(FieldChange { field: "Body".into(), old, new });
    }
    changes.extend(headers((before, lost.headers), (after, lost_after.headers)));
    changes
}

/// Returns the fields other than body and headers: the name, the text that is compared, and the
/// value that is shown.
fn fields(definition: &Definition) -> [(&'static str, String, VersionValue); 8] {
    let code = |name, text: &str| (name, text.to_owned(), VersionValue::Code(text.to_owned()));
    let words = |name, text: String| (name, text.clone(), VersionValue::Words(text));
    let Definition {
        cron_expression,
        timezone,
        endpoint,
        http_method,
        body: _,
        headers: _,
        max_retries,
        timeout_seconds,
        expected_status_codes,
        sign_requests,
    } = definition;
    let success = expected_status_codes.as_deref().unwrap_or("every status below 400");
    [
        code("Cron expression", cron_expression),
        words("Time zone", timezone.clone()),
        code("Method", http_method.as_str()),
        ("URL", endpoint.clone(), VersionValue::Code(masked_url(endpoint))),
        words("Counts as success", success.to_owned()),
        words("Attempts", max_retries.to_string()),
        words("Timeout of an attempt", format!("{timeout_seconds} s")),
        words("Signed", if *sign_requests { "Yes" } else { "No" }.to_owned()),
    ]
}

/// Returns both bodies. Of long ones the parts around the first difference are shown.
fn bodies(
    (old, old_is_lost): (&Definition, bool),
    (new, new_is_lost): (&Definition, bool),
) -> [VersionValue; 2] {
    let (before, after) = (old.body.as_deref(), new.body.as_deref());
    let pairs = before.unwrap_or_default().bytes().zip(after.unwrap_or_default().bytes());
    let same = pairs.take_while(|(old, new)| old == new).count();
    let show = |text: Option<&str>, is_lost| match text {
        _ if is_lost => VersionValue::Unreadable,
        None => VersionValue::Absent,
        Some(text) => excerpt(text, same),
    };
    [show(before, old_is_lost), show(after, new_is_lost)]
}

/// Returns a text, or the part of a long one around `offset`.
fn excerpt(text: &str, offset: usize) -> VersionValue {
    if text.len() <= EXCERPT {
        return VersionValue::Body { part: text.to_owned(), note: None };
    }
    let latest = text.len() - EXCERPT;
    let start = text.floor_char_boundary(offset.saturating_sub(CONTEXT).min(latest));
    let end = text.floor_char_boundary(start + EXCERPT);
    let part = text[start..end].to_owned();
    let note = format!("Cut: bytes {} to {end} of {}.", start + 1, text.len());
    VersionValue::Body { part, note: Some(note) }
}

/// Returns the headers that differ, one by one.
fn headers(
    (old, old_is_lost): (&Definition, bool),
    (new, new_is_lost): (&Definition, bool),
) -> Vec<FieldChange> {
    let (before, after) =
        (read_headers(old.headers.as_deref()), read_headers(new.headers.as_deref()));
    if old_is_lost || new_is_lost {
        let show = |headers: &[(String, String)], is_lost| match headers.len() {
            _ if is_lost => VersionValue::Unreadable,
            0 => VersionValue::Absent,
            count => VersionValue::Words(count.to_string()),
        };
        let (old, new) = (show(&before, old_is_lost), show(&after, new_is_lost));
        return vec![FieldChange { field: "Headers".into(), old, new }];
    }
    let names: BTreeSet<&String> = before.iter().chain(&after).map(|(name, _)| name).collect();
    let value = |headers: &[(String, String)], name: &str| {
        let found = headers.iter().find(|(its, _)| its == name);
        found.map(|(_, value)| value.clone())
    };
    let show = |name: &str, value: Option<String>| match value {
        None => VersionValue::Absent,
        Some(value) => VersionValue::Code(masked_header(name, &value).to_owned()),
    };
    let changed = names.into_iter().filter_map(|name| {
        let (old, new) = (value(&before, name), value(&after, name));
        (old != new).then(|| FieldChange {
            field: format!("Header {name}"),
            old: show(name, old),
            new: show(name, new),
        })
    });
    changed.collect()
}

/// Renders changes as a table.
pub(super) fn render(changes: &[FieldChange]) -> Markup {
    html! {
        (table::render(
            "Changed fields",
            &[Text("Field"), Text("Before"), Text("After")],
            &html! {
                @for change in changes {
                    tr {
                        th scope="row" { (change.field) }
                        td { (value(&change.old)) }
                        td {
                            (value(&change.new))
                            @if change.old == change.new { (hidden(&change.new)) }
                        }
                    }
                }
            },
        ))
    }
}

fn value(value: &VersionValue) -> Markup {
    html! {
        @match value {
            VersionValue::Absent => { span.soft { "None" } },
            VersionValue::Unreadable => { span.soft { "Cannot be decrypted" } },
            VersionValue::Words(text) => { (text) },
            VersionValue::Code(text) => { code { (text) } },
            VersionValue::Body { part, note } => {
                // A high one scrolls, which a keyboard can do only with the focus.
                pre tabindex="0" { code { (part) } }
                @if let Some(note) = note { span.sub { (note) } }
            },
        }
    }
}

/// Explains why both values look the same.
fn hidden(value: &VersionValue) -> Markup {
    html! {
        @if *value != VersionValue::Unreadable {
            span.sub { "The part that is not shown has changed." }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::schedule::HttpMethod;

    fn definition() -> Definition {
        Definition {
            cron_expression: "0 3 * * *".into(),
            timezone: "UTC".into(),
            endpoint: "https://a.example/?token=one".into(),
            http_method: HttpMethod::Post,
            body: Some("a".into()),
            headers: Some(r#"{"accept":"a","x-key":"one"}"#.into()),
            max_retries: 3,
            timeout_seconds: 30,
            expected_status_codes: None,
            sign_requests: false,
        }
    }

    fn between(old: &Definition, new: &Definition) -> Vec<FieldChange> {
        changes((old, UnreadableFields::default()), (new, UnreadableFields::default()))
    }

    fn named<'a>(changes: &'a [FieldChange], field: &str) -> &'a FieldChange {
        changes.iter().find(|change| change.field == field).expect("a change")
    }

    #[test]
    fn only_fields_that_differ_are_listed() {
        assert_eq!(between(&definition(), &definition()), []);
        let new = Definition {
            timeout_seconds: 60,
            sign_requests: true,
            expected_status_codes: Some("200".into()),
            body: None,
            ..definition()
        };
        let changes = between(&definition(), &new);
        let names: Vec<_> = changes.iter().map(|change| change.field.as_str()).collect();
        assert_eq!(names, ["Counts as success", "Timeout of an attempt", "Signed", "Body"]);
        let change = named(&changes, "Timeout of an attempt");
        assert_eq!(change.old, VersionValue::Words("30 s".into()));
        assert_eq!(change.new, VersionValue::Words("60 s".into()));
        assert_eq!(named(&changes, "Body").new, VersionValue::Absent);
    }

    #[test]
    fn secrets_are_masked_and_their_changes_are_reported() {
        let new = Definition {
            endpoint: "https://a.example/?token=two".into(),
            headers: Some(r#"{"accept":"b","x-key":"two","x-new":"three"}"#.into()),
            ..definition()
        };
        let changes = between(&definition(), &new);
        let names: Vec<_> = changes.iter().map(|change| change.field.as_str()).collect();
        assert_eq!(names, ["URL", "Header accept", "Header x-key", "Header x-new"]);
        let page = render(&changes).into_string();
        for secret in ["one", "two", "three"] {
            assert!(
                !page.contains(&format!(">{secret}<")) && !page.contains(&format!("={secret}"))
            );
        }
        assert_eq!(page.matches("The part that is not shown has changed.").count(), 2);
        assert_eq!(named(&changes, "Header accept").new, VersionValue::Code("b".into()));
        assert_eq!(named(&changes, "Header x-new").old, VersionValue::Absent);
    }

    #[test]
    fn long_bodies_are_cut_around_the_first_difference() {
        let long = |letter: char| format!("{}{letter}{}", "ü".repeat(1_000), "y".repeat(1_000));
        let [old, new] =
            ['a', 'b'].map(|letter| Definition { body: Some(long(letter)), ..definition() });
        let changes = between(&old, &new);
        let VersionValue::Body { part, note } = &changes[0].new else { panic!("a body") };
        assert!(part.contains("üby") && part.len() <= EXCERPT, "{part}");
        assert_eq!(note.as_deref(), Some("Cut: bytes 1901 to 2500 of 3001."));
        let end = excerpt(&long('a'), 3_001);
        let VersionValue::Body { part, note } = end else { panic!("a body") };
        assert_eq!((part.len(), note.as_deref()), (600, Some("Cut: bytes 2402 to 3001 of 3001.")));
    }

    #[test]
    fn undecryptable_rows_are_reported() {
        let lost = UnreadableFields { body: true, headers: true };
        let old = Definition { body: None, headers: None, ..definition() };
        let changes = changes((&old, lost), (&definition(), UnreadableFields::default()));
        let names: Vec<_> = changes.iter().map(|change| change.field.as_str()).collect();
        assert_eq!(names, ["Body", "Headers"]);
        assert!(changes.iter().all(|change| change.old == VersionValue::Unreadable));
        assert_eq!(named(&changes, "Headers").new, VersionValue::Words("2".into()));
    }
}
