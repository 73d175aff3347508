//! Cron expressions: when a schedule ticks.
//!
//! Place in the flow: the API and the dashboard parse and preview a user's expression. The
//! scheduler asks a [`Recurrence`] for the next tick of a schedule, and after an outage for the
//! newest missed tick and the number of missed ticks.
//!
//! A strict reader of the five-field grammar (`grammar`) converts a user's text into sets
//! (`fields`). The crate `cron` finds matching wall times in lists written from those sets
//! (`evaluation`). [`Recurrence`] converts wall times to instants by one rule over a timezone's
//! spans (`zone`). Blanks between fields are spaces and tabs; line breaks are not.
//!
//! Invariants: a parsed expression matches some date. Ticks are whole minutes on the wall, and a
//! next tick is always later than the given instant. Only the sets count ticks and only the crate
//! finds them; tests compare both with a walk over every minute.
//!
//! Behaviour on failure: any text that is not an expression or a timezone is refused within
//! microseconds. Nothing else can fail.

mod describe;
mod english;
mod evaluation;
mod fields;
mod grammar;
mod preview;
mod recurrence;
mod set;
#[cfg(test)]
mod tests;
mod warnings;
mod zone;

use std::fmt;
use std::sync::Arc;

use chrono_tz::Tz;

pub use describe::describe;
use evaluation::Evaluation;
use fields::{CronFields, FieldUnit};
use grammar::{MAX_LEN, fields_of};
pub use preview::{FutureRun, preview};
pub use recurrence::{InvalidRecurrence, Recurrence};
pub use warnings::warnings;

/// A five-field cron expression, parsed. Cheap to clone.
#[derive(Clone)]
pub struct Cron(Arc<Expression>);

struct Expression {
    fields: CronFields,
    evaluation: Evaluation,
}

/// The error for a text that is not a five-field expression, or for an expression that no date can
/// ever match. It displays as the message of the REST contract; [`InvalidCron::reason`] says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidCron {
    /// The text is longer than 255 characters.
    TooLong,
    /// The text has this number of fields, not five.
    FieldCount(usize),
    /// The field at this position, counted from 0, is malformed or out of its range.
    Field(usize),
    /// No date ever matches.
    NoDate,
}

impl fmt::Display for InvalidCron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Invalid cron expression")
    }
}

impl std::error::Error for InvalidCron {}

/// The fields, in their order, and the range of their names.
const FIELDS: [(&str, FieldUnit, &str); 5] = [
    ("minute", FieldUnit::Minute, ""),
    ("hour", FieldUnit::Hour, ""),
    ("day of month", FieldUnit::Day, ""),
    ("month", FieldUnit::Month, " or JAN to DEC"),
    ("day of week", FieldUnit::Weekday, " or SUN to SAT"),
];

impl InvalidCron {
    /// Returns the reason, in words, why `expression` was refused with this error.
    pub fn reason(self, expression: &str) -> String {
        match self {
            Self::TooLong => format!("it is longer than {MAX_LEN} characters"),
            Self::FieldCount(count) => {
                let names = FIELDS.map(|(name, ..)| name).join(", ");
                format!("it has {count} fields and must have five: {names}")
            }
            Self::Field(position) => {
                let (name, unit, names) = FIELDS[position.min(FIELDS.len() - 1)];
                let field = fields_of(expression).nth(position).unwrap_or_default();
                let (min, max) = (unit.min(), unit.max());
                format!(
                    "{name} {field}: must be {min} to {max}{names}, *, or a list, range or step of \
                     these"
                )
            }
            Self::NoDate => "no month has that day".to_owned(),
        }
    }
}

/// The error for a text that is not the name of a timezone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid timezone")]
pub struct InvalidTimezone;

impl Cron {
    /// Reads an expression of at most 255 characters: minute 0–59, hour 0–23, day of month 1–31,
    /// month 1–12 or JAN–DEC, day of week 0–7 (0 and 7 are Sunday) or SUN–SAT, each `*`, a list,
    /// ranges, steps. If both day fields are restricted, a day matches if either field does. A day
    /// field that begins with `*` is not a restriction in this sense.
    pub fn parse(text: &str) -> Result<Self, InvalidCron> {
        let fields = grammar::parse(text)?;
        let evaluation = Evaluation::new(&fields).map_err(|_| InvalidCron::NoDate)?;
        Ok(Self(Arc::new(Expression { fields, evaluation })))
    }

    fn fields(&self) -> &CronFields {
        &self.0.fields
    }

    fn evaluation(&self) -> &Evaluation {
        &self.0.evaluation
    }
}

impl PartialEq for Cron {
    /// Returns `true` if both mean the same and were written in the same form.
    fn eq(&self, other: &Self) -> bool {
        self.fields() == other.fields()
    }
}

impl Eq for Cron {}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cron").field(self.fields()).finish()
    }
}

/// Returns the timezone with this name in the compiled-in IANA data, links included. The name is
/// case-sensitive.
pub fn parse_timezone(text: &str) -> Result<Tz, InvalidTimezone> {
    text.parse().map_err(|_| InvalidTimezone)
}
