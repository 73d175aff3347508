//! Warnings about effects of an expression that may surprise its author.

use std::time::Duration;

use super::english::{and, date, month, ordinal, time, weekday};
use super::fields::{CronField, CronFields, FieldForm, FieldUnit, longest_month};
use super::zone::OffsetSpan;
use super::{Recurrence, preview};
use crate::domain::Timestamp;

/// The period in which changes of the clock and the next run are searched for.
const YEAR: Duration = Duration::from_secs(366 * 86_400);

/// Returns sentences about possible surprises in the runs after `from`; most expressions have none.
pub fn warnings(recurrence: &Recurrence, from: Timestamp) -> Vec<String> {
    let fields = recurrence.cron().fields();
    let mut warnings = Vec::new();
    warnings.extend(day_fields(fields));
    warnings.extend(missing_days(fields));
    warnings.extend(far_away(recurrence, from));
    let in_order = [fields.minute, fields.hour, fields.day, fields.month, fields.weekday];
    warnings.extend(in_order.iter().filter_map(|field| uneven_step(fields, field)));
    warnings.extend(clock_changes(recurrence, from));
    warnings
}

fn day_fields(fields: &CronFields) -> Option<String> {
    if fields.day.is_full() && fields.weekday.is_full() {
        return None;
    }
    if fields.either_day() {
        return Some(
            "Day of month and day of week are both restricted: it runs on days that match \
             either of them."
                .to_owned(),
        );
    }
    let both = !fields.day.is_full() && !fields.weekday.is_full();
    both.then(|| {
        "One of the day fields begins with *: it runs only on days that match both of them."
            .to_owned()
    })
}

fn missing_days(fields: &CronFields) -> Option<String> {
    if fields.either_day() {
        return None;
    }
    let days = fields.day.set;
    let short = fields.month.set.iter().filter(|&month| days.both(longest_month(month)).is_empty());
    let short: Vec<_> = short.map(month).collect();
    let first = days.first();
    if !short.is_empty() {
        return Some(format!("It skips {}: there is no day {first} then.", and(&short)));
    }
    let february = fields.month.set.contains(2);
    (february && first == 29).then(|| {
        "In February it runs only in leap years: there is no day 29 in other years.".to_owned()
    })
}

fn far_away(recurrence: &Recurrence, from: Timestamp) -> Option<String> {
    match preview(recurrence, from, 1).first() {
        None => Some("It does not run again up to the end of the year 2100.".to_owned()),
        Some(run) if run.utc > from.plus(YEAR) => {
            let (day, _) = run.local.split_once('T')?;
            Some(format!("The next run is more than a year away, on {day}."))
        }
        Some(_) => None,
    }
}

/// Returns a warning for `*/n` if the interval becomes uneven where the next hour, day, month, year
/// or week begins.
fn uneven_step(fields: &CronFields, field: &CronField) -> Option<String> {
    let FieldForm::StarStep(step) = field.form else { return None };
    let (unit, round) = match field.unit {
        FieldUnit::Minute => ("minute", "hour"),
        FieldUnit::Hour => ("hour", "day"),
        FieldUnit::Day => ("day", "month"),
        FieldUnit::Month => ("month", "year"),
        FieldUnit::Weekday => ("day", "week"),
    };
    let (first, values) = (field.set.first(), field.unit.all().len());
    if field.set.len() == 1 {
        let value =
            if field.unit == FieldUnit::Weekday { weekday(first) } else { first.to_string() };
        return Some(format!("*/{step} allows one {unit} of the {round} only: {value}."));
    }
    let (uneven, is) = match field.unit {
        FieldUnit::Minute => (!values.is_multiple_of(step) && in_a_row(&fields.hour), "is"),
        FieldUnit::Hour => {
            let days_in_a_row = in_a_row(&fields.day) && in_a_row(&fields.weekday);
            (!values.is_multiple_of(step) && days_in_a_row, "is")
        }
        FieldUnit::Day => (step > 1 && in_a_row(&fields.month), "can be"),
        FieldUnit::Month | FieldUnit::Weekday => (!values.is_multiple_of(step), "is"),
    };
    uneven.then(|| {
        format!(
            "Every {} {unit} is counted afresh each {round}: the last step before a new {round} \
             {is} shorter.",
            ordinal(step)
        )
    })
}

/// Returns `true` if the field allows two consecutive values; the first value follows the last.
fn in_a_row(field: &CronField) -> bool {
    let (set, all) = (field.set, field.unit.all());
    let following = |value| if value == all.last() { all.first() } else { value + 1 };
    set.iter().any(|value| set.contains(following(value)))
}

/// Returns warnings about the next skipped time and the next repeated time that affect the
/// expression.
fn clock_changes(recurrence: &Recurrence, from: Timestamp) -> Vec<String> {
    let seconds = |at: Timestamp| at.as_millis().div_euclid(1000);
    let (start, end) = (seconds(from), seconds(from.plus(YEAR)));
    let coming = || {
        let spans = recurrence.zone().spans().iter();
        spans.filter(move |span| span.start > start && span.start <= end)
    };
    let skip = coming().find_map(|span| skipped(recurrence, span));
    let repeat = coming().find_map(|span| repeated(recurrence, span));
    skip.into_iter().chain(repeat).collect()
}

fn skipped(recurrence: &Recurrence, span: &OffsetSpan) -> Option<String> {
    let effect = match recurrence.cron().fields().hour.form {
        FieldForm::Star | FieldForm::StarStep(1) => return None,
        FieldForm::StarStep(_) => "are skipped on that day",
        FieldForm::StarList | FieldForm::List => "happen once, after the change",
    };
    let first_wall = span.first_wall();
    (recurrence.cron().fields().count(span.reach, first_wall - 1) > 0).then(|| {
        format!(
            "On {} the clock of {} moves from {} forward to {}: runs that are due in between \
             {effect}.",
            date(span.reach),
            recurrence.timezone().name(),
            time(span.reach),
            moment(first_wall, span.reach),
        )
    })
}

fn repeated(recurrence: &Recurrence, span: &OffsetSpan) -> Option<String> {
    let effect = match recurrence.cron().fields().hour.form {
        FieldForm::Star | FieldForm::StarStep(1) => return None,
        FieldForm::StarStep(_) => "happen in both passes",
        FieldForm::StarList | FieldForm::List => "happen once, in the first pass",
    };
    let first_wall = span.first_wall();
    (recurrence.cron().fields().count(first_wall, span.reach - 1) > 0).then(|| {
        format!(
            "On {} the clock of {} moves from {} back to {}: runs that are due in between \
             {effect}.",
            date(span.reach),
            recurrence.timezone().name(),
            time(span.reach),
            moment(first_wall, span.reach),
        )
    })
}

/// Returns the time, with its date unless that is also the date of `other`.
fn moment(wall: i64, other: i64) -> String {
    if date(wall) == date(other) {
        return time(wall);
    }
    format!("{} {}", date(wall), time(wall))
}
