//! The preview of the next runs of a cron expression.

use super::fields::{Fields, Purpose};
use super::json::Object;
use super::{CommandError, FieldErrors, Schedules, rules};
use crate::domain::cron::{self, Cadence, Run};

/// The fields that [`Schedules::preview`] accepts.
pub const PREVIEW_FIELDS: &[&str] = &["cronExpression", "timezone", "count", "from"];

const DEFAULT_COUNT: usize = 10;
const LARGEST_COUNT: i64 = 100;

/// The meaning of a cron expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The description in words.
    pub description: String,
    /// The next runs.
    pub runs: Vec<Run>,
    /// Warnings about behaviour that the author may not expect.
    pub warnings: Vec<String>,
}

impl Schedules {
    /// Returns the next runs of a cron expression without any change. `fields` holds values for
    /// [`PREVIEW_FIELDS`].
    pub fn preview(&self, fields: Object) -> Result<Preview, CommandError> {
        let mut errors = FieldErrors::new();
        let mut fields = Fields::new(fields, "", &mut errors);
        let expression = rules::cron_expression(&mut fields);
        let timezone = rules::timezone(&mut fields);
        let (count, from) = (fields.clamped("count", 1, LARGEST_COUNT), fields.instant("from"));
        fields.require("cronExpression", &expression, Purpose::Creation);
        fields.require("timezone", &timezone, Purpose::Creation);
        let (Some(expression), Some(timezone)) = (expression.value(), timezone.value()) else {
            return Err(errors.into());
        };
        errors.unless_any(())?;
        let cadence = Cadence::parse(&expression, &timezone)
            .map_err(|error| FieldErrors::of("cronExpression", error.to_string()))?;
        let from = from.value().unwrap_or_else(|| self.0.clock.now());
        Ok(Preview {
            description: cron::describe(cadence.cron()),
            runs: cron::preview(&cadence, from, count.value().unwrap_or(DEFAULT_COUNT)),
            warnings: cron::warnings(&cadence, from),
        })
    }
}
