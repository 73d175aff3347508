//! The strict reader of five-field expressions.
//!
//! It accepts exactly this, and nothing else:
//!
//! ```text
//! expression = [blanks] field blanks field blanks field blanks field blanks field [blanks]
//! blanks     = one or more spaces and tabs
//! field      = item *("," item)
//! item       = ("*" / value / value "-" value) ["/" step]
//! value      = digits, or a name where the field has names, in any case
//! step       = digits, not zero
//! ```
//!
//! `a/n` is `a-max/n`, and `a-b` needs a ≤ b. A step may be longer than the field; it then picks
//! the first value only.

use super::InvalidCron;
use super::fields::{CronField, CronFields, FieldForm, FieldUnit};
use super::set::NumberSet;

/// The maximum length of an expression, in characters. An accepted expression is ASCII, so bytes
/// are characters.
pub(super) const MAX_LEN: usize = 255;

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// Returns the texts of the fields.
pub(super) fn fields_of(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\t']).filter(|field| !field.is_empty())
}

/// Reads an expression. Fails if the text is not an expression, or if no date can ever match it.
pub(super) fn parse(text: &str) -> Result<CronFields, InvalidCron> {
    if text.len() > MAX_LEN {
        return Err(InvalidCron::TooLong);
    }
    let texts: Vec<&str> = fields_of(text).collect();
    let Ok(texts) = <[&str; 5]>::try_from(texts.as_slice()) else {
        return Err(InvalidCron::FieldCount(texts.len()));
    };
    let read =
        |position: usize, unit| field(texts[position], unit).ok_or(InvalidCron::Field(position));
    let fields = CronFields {
        minute: read(0, FieldUnit::Minute)?,
        hour: read(1, FieldUnit::Hour)?,
        day: read(2, FieldUnit::Day)?,
        month: read(3, FieldUnit::Month)?,
        weekday: read(4, FieldUnit::Weekday)?,
    };
    let fires = fields.either_day() || fields.has_a_date();
    if fires { Ok(fields) } else { Err(InvalidCron::NoDate) }
}

fn field(text: &str, unit: FieldUnit) -> Option<CronField> {
    let mut set = NumberSet::default();
    for text in text.split(',') {
        set = set.union(item(text, unit)?);
    }
    if unit == FieldUnit::Weekday {
        set = set.renamed(7, 0);
    }
    Some(CronField { unit, set, form: form(text)? })
}

fn form(text: &str) -> Option<FieldForm> {
    let Some(rest) = text.strip_prefix('*') else { return Some(FieldForm::List) };
    if rest.is_empty() {
        return Some(FieldForm::Star);
    }
    match rest.strip_prefix('/') {
        Some(step) if !step.contains(',') => Some(FieldForm::StarStep(number(step)?)),
        _ => Some(FieldForm::StarList),
    }
}

fn item(text: &str, unit: FieldUnit) -> Option<NumberSet> {
    let (base, step) = match text.split_once('/') {
        Some((base, step)) => (base, Some(number(step).filter(|&step| step > 0)?)),
        None => (text, None),
    };
    let (first, last) = if base == "*" {
        (unit.min(), unit.max())
    } else if let Some((first, last)) = base.split_once('-') {
        (value(first, unit)?, range_end(last, unit)?)
    } else {
        let first = value(base, unit)?;
        (first, if step.is_some() { unit.max() } else { first })
    };
    (first <= last).then(|| NumberSet::stepped(first, last, step.unwrap_or(1)))
}

/// Reads the end of a range. It is like any value, but a range to SUN ends with the last day of the
/// week.
fn range_end(text: &str, unit: FieldUnit) -> Option<u32> {
    if unit == FieldUnit::Weekday && text.eq_ignore_ascii_case("SUN") {
        return Some(7);
    }
    value(text, unit)
}

fn value(text: &str, unit: FieldUnit) -> Option<u32> {
    let named = |names: &[&str]| names.iter().position(|name| text.eq_ignore_ascii_case(name));
    let position = match unit {
        FieldUnit::Month => named(&MONTHS),
        FieldUnit::Weekday => named(&WEEKDAYS),
        FieldUnit::Minute | FieldUnit::Hour | FieldUnit::Day => None,
    };
    let value = match position {
        Some(position) => u32::try_from(position).ok()? + unit.min(),
        None => number(text)?,
    };
    (unit.min()..=unit.max()).contains(&value).then_some(value)
}

/// Reads a run of digits; a number that is too large for the type becomes the largest one.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u32::MAX))
}
