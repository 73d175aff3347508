//! Turns the form of a schedule into the request of the API, and a schedule into the form.

use serde_json::{Map, Value};

use crate::dashboard::PageError;
use crate::dashboard::form::{FormFields, FormMessages, request};
use crate::dashboard::text::read_headers;
use crate::dashboard::time::ShownZone;
use crate::domain::headers::headers_text;
use crate::domain::schedule::Schedule;
use crate::schedules::{CommandError, ScheduleCreation, ScheduleUpdate};

/// The names of the controls for headers. Each row has one of both.
pub(super) const HEADER_NAME: &str = "header-name";
pub(super) const HEADER_VALUE: &str = "header-value";
/// The name of the box that removes secrets which cannot be decrypted.
pub(super) const DROP_UNREADABLE: &str = "drop-unreadable";

/// The fields that are texts of one line, with the names of the API.
const TEXTS: [&str; 8] = [
    "name",
    "cronExpression",
    "timezone",
    "endpoint",
    "httpMethod",
    "expectedStatusCodes",
    "overlapPolicy",
    "catchUpPolicy",
];

/// Returns the messages of a refused form. An error that no other input avoids is a page.
pub(in crate::dashboard) fn refusal(error: CommandError) -> Result<FormMessages, PageError> {
    match error {
        CommandError::Invalid(errors) => Ok(FormMessages::of_fields(errors)),
        CommandError::LimitExceeded(_) | CommandError::Suspended | CommandError::Contended => {
            Ok(FormMessages::general(&error.to_string()))
        }
        other => Err(other.into()),
    }
}

/// Returns the form of a new schedule, with the defaults of the API.
pub(super) fn blank(zone: ShownZone) -> FormFields {
    let pairs = [
        ("timezone", zone.name()),
        ("httpMethod", "GET"),
        ("maxRetries", "3"),
        ("timeoutSeconds", "30"),
        ("overlapPolicy", "allow"),
        ("catchUpPolicy", "last"),
        ("isEnabled", "true"),
    ];
    FormFields::of(pairs)
}

/// Returns the form of a schedule.
pub(super) fn of_schedule(schedule: &Schedule) -> FormFields {
    let definition = &schedule.definition;
    let optional = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut pairs = vec![
        ("name", schedule.name.clone()),
        ("description", optional(&schedule.description)),
        ("cronExpression", definition.cron_expression.clone()),
        ("timezone", definition.timezone.clone()),
        ("endpoint", definition.endpoint.clone()),
        ("httpMethod", definition.http_method.to_string()),
        ("body", optional(&definition.body)),
        ("maxRetries", definition.max_retries.to_string()),
        ("timeoutSeconds", definition.timeout_seconds.to_string()),
        ("expectedStatusCodes", optional(&definition.expected_status_codes)),
        ("overlapPolicy", schedule.overlap_policy.to_string()),
        ("catchUpPolicy", schedule.catch_up_policy.to_string()),
    ];
    for (name, is_set) in
        [("isEnabled", schedule.is_enabled), ("signRequests", definition.sign_requests)]
    {
        if is_set {
            pairs.push((name, "true".to_owned()));
        }
    }
    for (name, value) in read_headers(definition.headers.as_deref()) {
        pairs.push((HEADER_NAME, name));
        pairs.push((HEADER_VALUE, value));
    }
    FormFields::of(pairs)
}

/// Returns the request to create the schedule of a form.
pub(super) fn creation(fields: &FormFields) -> Result<ScheduleCreation, PageError> {
    request(&Value::Object(json_of(fields)))
}

/// Returns the request to change `current` into the schedule of a form. An unchanged body and
/// unchanged headers are left out: a browser changes line breaks, and an unreadable secret must not
/// be deleted.
pub(super) fn update(fields: &FormFields, current: &Schedule) -> Result<ScheduleUpdate, PageError> {
    let mut json = json_of(fields);
    let (stored, lost) = (&current.definition, current.unreadable);
    let drops = fields.has(DROP_UNREADABLE);
    let body = stored.body.as_deref().map(plain_breaks).unwrap_or_default();
    if body == plain_breaks(fields.text("body")) && !(drops && lost.body) {
        json.remove("body");
    }
    let mut rows = header_rows(fields);
    rows.sort_unstable();
    if rows == read_headers(stored.headers.as_deref()) && !(drops && lost.headers) {
        json.remove("headers");
    }
    request(&Value::Object(json))
}

/// Returns the headers of a form, without empty rows.
pub(super) fn header_rows(fields: &FormFields) -> Vec<(String, String)> {
    let rows = fields.all(HEADER_NAME).zip(fields.all(HEADER_VALUE));
    let rows = rows.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    rows.filter(|(name, value)| !name.is_empty() || !value.is_empty()).collect()
}

/// Returns the JSON object of a form, with the names of the API.
fn json_of(fields: &FormFields) -> Map<String, Value> {
    let mut json = Map::new();
    for name in TEXTS {
        json.insert(name.to_owned(), Value::from(fields.text(name).trim()));
    }
    for name in ["description", "body"] {
        json.insert(name.to_owned(), Value::from(plain_breaks(fields.text(name))));
    }
    for name in ["maxRetries", "timeoutSeconds"] {
        json.insert(name.to_owned(), number(fields.text(name)));
    }
    for name in ["isEnabled", "signRequests"] {
        json.insert(name.to_owned(), Value::from(fields.has(name)));
    }
    json.insert("headers".to_owned(), headers_text(&header_rows(fields)).into());
    json
}

/// Returns a number. Any other text stays a text, which the API refuses.
pub(super) fn number(text: &str) -> Value {
    match text.trim() {
        "" => Value::Null,
        text => text.parse::<i64>().map_or_else(|_| Value::from(text), Value::from),
    }
}

/// Returns a text with the line breaks that the user typed: forms send them as CR LF.
fn plain_breaks(text: &str) -> String {
    text.replace("\r\n", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> FormFields {
        FormFields(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    #[test]
    fn a_form_becomes_the_request_of_the_api() {
        let json = json_of(&fields(&[
            ("name", " Nightly "),
            ("body", "{\r\n}"),
            ("maxRetries", "x"),
            ("timeoutSeconds", ""),
            ("isEnabled", "true"),
            ("header-name", "X-A"),
            ("header-value", "\"1\""),
            ("header-name", ""),
            ("header-value", ""),
            ("header-name", "X-A"),
            ("header-value", "2"),
        ]));
        assert_eq!(json["name"], "Nightly");
        assert_eq!(json["body"], "{\n}");
        assert_eq!(json["maxRetries"], "x");
        assert_eq!(json["timeoutSeconds"], Value::Null);
        assert_eq!(json["isEnabled"], true);
        assert_eq!(json["signRequests"], false);
        assert_eq!(json["headers"], r#"{"X-A":"\"1\"","X-A":"2"}"#);
    }

    #[test]
    fn no_header_is_no_text() {
        assert_eq!(json_of(&FormFields::default())["headers"], Value::Null);
        assert_eq!(number("-7"), Value::from(-7));
    }
}
