//! The preview of the next runs of a cron expression.

use super::requests::PreviewRequest;
use super::{CommandError, FieldErrors, Schedules, rules};
use crate::domain::Timestamp;
use crate::domain::cron::{self, FutureRun, Recurrence};
use crate::domain::field_errors::NOT_AN_INSTANT;

const DEFAULT_COUNT: usize = 10;
const MAX_COUNT: i64 = 100;

/// The meaning of a cron expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The description in words.
    pub description: String,
    /// The next runs.
    pub runs: Vec<FutureRun>,
    /// Warnings about behaviour that the author may not expect.
    pub warnings: Vec<String>,
}

impl Schedules {
    /// Returns the next runs of a cron expression without any change.
    pub fn preview(&self, request: PreviewRequest) -> Result<Preview, CommandError> {
        let mut errors = FieldErrors::new();
        let expression = rules::cron_expression(request.cron_expression);
        let expression = expression.required("cronExpression", &mut errors);
        let timezone = rules::timezone(request.timezone).required("timezone", &mut errors);
        let count = request.count.clamp(1, MAX_COUNT).optional("count", &mut errors);
        let from =
            request.from.convert(|text| text.parse::<Timestamp>().map_err(|_| NOT_AN_INSTANT));
        let from = from.optional("from", &mut errors);
        let (Some(expression), Some(timezone)) = (expression, timezone) else {
            return Err(errors.into());
        };
        errors.unless_any(())?;
        let recurrence = Recurrence::parse(&expression, &timezone)
            .map_err(|error| FieldErrors::of("cronExpression", error.to_string()))?;
        let from = from.unwrap_or_else(|| self.0.clock.now());
        Ok(Preview {
            description: cron::describe(recurrence.cron()),
            runs: cron::preview(&recurrence, from, count.unwrap_or(DEFAULT_COUNT)),
            warnings: cron::warnings(&recurrence, from),
        })
    }
}
