//! The contract's rules for each field of a schedule.

use crate::domain::cron::{Cron, parse_timezone};
use crate::domain::field_errors::HAS_NUL;
use crate::domain::headers::parse_headers;
use crate::domain::request_body::Field;
use crate::domain::status_codes::ExpectedStatusCodes;
use crate::outbound;

/// The maximum length of a name and of a description, in characters.
const MAX_NAME: usize = 255;
const MAX_DESCRIPTION: usize = 1_000;
/// The maximum length of the note of a pause, in characters.
const MAX_PAUSE_NOTE: usize = 200;
/// The maximum size of a body, in bytes.
const MAX_BODY: usize = 256 * 1_024;

pub(super) fn name(given: Field<String>) -> Field<String> {
    given.check(without_nul).check(|text| {
        if (1..=MAX_NAME).contains(&text.chars().count()) {
            return Ok(());
        }
        Err(format!("Must be between 1 and {MAX_NAME} characters"))
    })
}

pub(super) fn description(given: Field<String>) -> Field<String> {
    given.null_if(str::is_empty).check(without_nul).check(|text| {
        if text.chars().count() <= MAX_DESCRIPTION {
            return Ok(());
        }
        Err(format!("Must be at most {MAX_DESCRIPTION} characters"))
    })
}

pub(super) fn cron_expression(given: Field<String>) -> Field<String> {
    given.check(|text| Cron::parse(text).map(drop))
}

pub(super) fn timezone(given: Field<String>) -> Field<String> {
    given.check(|text| parse_timezone(text).map(drop))
}

pub(super) fn endpoint(given: Field<String>, outbound: &outbound::Client) -> Field<String> {
    given.check(|text| outbound.check(text).map(drop))
}

pub(super) fn body(given: Field<String>) -> Field<String> {
    given.null_if(str::is_empty).check(without_nul).check(|text| {
        if text.len() <= MAX_BODY {
            return Ok(());
        }
        Err(format!("Must be at most {MAX_BODY} bytes"))
    })
}

pub(super) fn headers(given: Field<String>) -> Field<String> {
    let given = given.null_if(str::is_empty).check(without_nul);
    given.check(|text| parse_headers(text).map(drop))
}

pub(super) fn expected_status_codes(given: Field<String>) -> Field<String> {
    let given = given.null_if(|text| text.trim().is_empty());
    given.check(|text| text.parse::<ExpectedStatusCodes>().map(drop))
}

pub(super) fn pause_note(given: Field<String>) -> Field<String> {
    let given = given.map(|text| text.trim().to_owned()).null_if(str::is_empty);
    given.check(without_nul).check(|text| {
        if text.chars().count() <= MAX_PAUSE_NOTE {
            return Ok(());
        }
        Err(format!("Must be at most {MAX_PAUSE_NOTE} characters"))
    })
}

fn without_nul(text: &str) -> Result<(), &'static str> {
    if text.contains('\0') { Err(HAS_NUL) } else { Ok(()) }
}
