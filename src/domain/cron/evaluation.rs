//! Finds the next and previous matching wall times with the crate `cron`.
//!
//! The crate reads another dialect (seconds first, weekdays from 1 = Sunday, both day fields joined
//! with AND) and is unsafe with timezones. So it never gets a user's text or a timezone: it gets
//! explicit lists written from checked fields, and wall times that pose as UTC. If either day field
//! suffices, two of its schedules are evaluated, one for each field.

use std::fmt::Write;
use std::str::FromStr;

use chrono::DateTime;
use cron::Schedule;

use super::fields::{CronField, CronFields, FieldUnit};

/// 2101-01-01, the wall time after the last year that the crate knows.
const END_OF_YEARS: i64 = 4_133_980_800;

/// The schedules whose union is the expression.
pub(super) struct Evaluation {
    schedule: Schedule,
    /// The schedule by day of month, if both day fields are restricted and the days exist.
    or: Option<Schedule>,
}

impl Evaluation {
    /// Translates `fields`. The crate accepts every translation; a test checks this.
    pub(super) fn new(fields: &CronFields) -> Result<Self, cron::error::Error> {
        let any_day = CronField { set: FieldUnit::Day.all(), ..fields.day };
        let any_weekday = CronField { set: FieldUnit::Weekday.all(), ..fields.weekday };
        let by_weekday = CronFields { day: any_day, ..*fields };
        let by_day = CronFields { weekday: any_weekday, ..*fields };
        if !fields.either_day() {
            return Ok(Self { schedule: translate(fields)?, or: None });
        }
        // Days that no chosen month has would make the crate search all its years in vain.
        let or = if fields.has_a_date() { Some(translate(&by_day)?) } else { None };
        Ok(Self { schedule: translate(&by_weekday)?, or })
    }

    /// Returns the first match after `wall`, in seconds of wall time since 1970.
    pub(super) fn after(&self, wall: i64) -> Option<i64> {
        let start = DateTime::from_timestamp(wall, 0)?;
        let next = |schedule: &Schedule| Some(schedule.after(&start).next()?.timestamp());
        let first = next(&self.schedule);
        let Some(or) = &self.or else { return first };
        match (first, next(or)) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Returns the last match before `wall`.
    pub(super) fn before(&self, wall: i64) -> Option<i64> {
        // For a start in a year that it does not know, the crate begins with that month and day in
        // the last year that it knows.
        let start = DateTime::from_timestamp(wall.min(END_OF_YEARS), 0)?;
        let previous = |schedule: &Schedule| Some(schedule.after(&start).next_back()?.timestamp());
        // `None` sorts before every instant.
        previous(&self.schedule).max(self.or.as_ref().and_then(previous))
    }
}

fn translate(fields: &CronFields) -> Result<Schedule, cron::error::Error> {
    let mut text = String::from("0");
    for field in [&fields.minute, &fields.hour, &fields.day, &fields.month, &fields.weekday] {
        text.push(' ');
        push_list(&mut text, field);
    }
    Schedule::from_str(&text)
}

fn push_list(text: &mut String, field: &CronField) {
    if field.is_full() {
        text.push('*');
        return;
    }
    let shift = if field.unit == FieldUnit::Weekday { 1 } else { 0 };
    for (position, value) in field.set.iter().enumerate() {
        let comma = if position == 0 { "" } else { "," };
        write!(text, "{comma}{}", value + shift).expect("a String takes every write");
    }
}
