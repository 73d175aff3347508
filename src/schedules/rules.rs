//! The contract's rules for each field of a schedule.

use super::fields::{Fields, Given};
use crate::domain::cron::{Cron, parse_timezone};
use crate::domain::field_errors::HAS_NUL;
use crate::domain::headers::parse_headers;
use crate::domain::status_codes::ExpectedStatusCodes;
use crate::outbound;

/// The maximum length of a name and of a description, in characters.
const LONGEST_NAME: usize = 255;
const LONGEST_DESCRIPTION: usize = 1_000;
/// The maximum size of a body, in bytes.
const LARGEST_BODY: usize = 256 * 1_024;

pub(super) fn name(fields: &mut Fields) -> Given<String> {
    fields.text("name").and_then(|text| {
        if text.contains('\0') {
            return fields.refuse("name", HAS_NUL);
        }
        if (1..=LONGEST_NAME).contains(&text.chars().count()) {
            return Given::Value(text);
        }
        fields.refuse("name", format!("Must be between 1 and {LONGEST_NAME} characters"))
    })
}

pub(super) fn description(fields: &mut Fields) -> Given<String> {
    optional(fields, "description", |text| {
        if text.chars().count() <= LONGEST_DESCRIPTION {
            return Ok(());
        }
        Err(format!("Must be at most {LONGEST_DESCRIPTION} characters"))
    })
}

pub(super) fn cron_expression(fields: &mut Fields) -> Given<String> {
    checked(fields, "cronExpression", |text| Cron::parse(text).map(drop))
}

pub(super) fn timezone(fields: &mut Fields) -> Given<String> {
    checked(fields, "timezone", |text| parse_timezone(text).map(drop))
}

pub(super) fn endpoint(fields: &mut Fields, outbound: &outbound::Client) -> Given<String> {
    checked(fields, "endpoint", |text| outbound.check(text).map(drop))
}

pub(super) fn body(fields: &mut Fields) -> Given<String> {
    optional(fields, "body", |text| {
        if text.len() <= LARGEST_BODY {
            return Ok(());
        }
        Err(format!("Must be at most {LARGEST_BODY} bytes"))
    })
}

pub(super) fn headers(fields: &mut Fields) -> Given<String> {
    optional(fields, "headers", |text| {
        parse_headers(text).map(drop).map_err(|refused| refused.to_string())
    })
}

pub(super) fn expected_status_codes(fields: &mut Fields) -> Given<String> {
    let given = fields.text("expectedStatusCodes");
    given.and_then(|text| match text.parse::<ExpectedStatusCodes>() {
        _ if text.trim().is_empty() => Given::Null,
        Ok(_) => Given::Value(text),
        Err(invalid) => fields.refuse("expectedStatusCodes", invalid.to_string()),
    })
}

/// Reads a text and checks it with `check`. An empty text is checked like any other.
fn checked<E: ToString>(
    fields: &mut Fields,
    name: &str,
    check: impl FnOnce(&str) -> Result<(), E>,
) -> Given<String> {
    fields.text(name).and_then(|text| match check(&text) {
        Ok(()) => Given::Value(text),
        Err(error) => fields.refuse(name, error.to_string()),
    })
}

/// Reads an optional text and checks it with `check`. An empty text counts as `null`.
fn optional(
    fields: &mut Fields,
    name: &str,
    check: impl FnOnce(&str) -> Result<(), String>,
) -> Given<String> {
    fields.text(name).and_then(|text| {
        if text.is_empty() {
            return Given::Null;
        }
        if text.contains('\0') {
            return fields.refuse(name, HAS_NUL);
        }
        match check(&text) {
            Ok(()) => Given::Value(text),
            Err(message) => fields.refuse(name, message),
        }
    })
}
