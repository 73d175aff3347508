//! A literal implementation of the rule for ticks, minute by minute: slow, simple, and independent
//! of the code under test, including its reader of expressions.

use chrono::{DateTime, Datelike, Offset, TimeZone};
use chrono_tz::Tz;

/// The number of minutes before the window. It exceeds any gap or repetition of the clock, so that
/// all earlier wall times that matter are known.
const WARM_UP: i64 = 26 * 60;

const MONTHS: &str = "  JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC";
const WEEKDAYS: &str = "SUNMONTUEWEDTHUFRISAT";

/// An expression that is known to be valid.
pub(super) struct Rule {
    minutes: Vec<bool>,
    hours: Vec<bool>,
    days: Vec<bool>,
    months: Vec<bool>,
    weekdays: Vec<bool>,
    either_day: bool,
    every_pass: bool,
}

impl Rule {
    pub(super) fn read(expression: &str) -> Self {
        let texts: Vec<_> = expression.split_whitespace().collect();
        let hour = texts[1];
        let mut weekdays = allowed(texts[4], 0, 7, WEEKDAYS);
        weekdays[0] |= weekdays[7];
        Self {
            minutes: allowed(texts[0], 0, 59, ""),
            hours: allowed(hour, 0, 23, ""),
            days: allowed(texts[2], 1, 31, ""),
            months: allowed(texts[3], 1, 12, MONTHS),
            weekdays,
            either_day: !texts[2].starts_with('*') && !texts[4].starts_with('*'),
            every_pass: hour == "*" || hour.starts_with("*/") && !hour.contains(','),
        }
    }

    fn matches(&self, wall: i64) -> bool {
        let of_day = usize::try_from(wall.rem_euclid(1440)).unwrap();
        self.minutes[of_day % 60] && self.hours[of_day / 60] && self.matches_day(wall)
    }

    fn matches_day(&self, wall: i64) -> bool {
        let date = DateTime::from_timestamp(wall * 60, 0).unwrap().date_naive();
        let by_day = self.days[date.day() as usize];
        let by_weekday = self.weekdays[date.weekday().num_days_from_sunday() as usize];
        self.months[date.month() as usize]
            && if self.either_day { by_day || by_weekday } else { by_day && by_weekday }
    }
}

fn allowed(text: &str, min: usize, max: usize, names: &str) -> Vec<bool> {
    let number = |text: &str, ends_range: bool| {
        let text = text.to_uppercase();
        match names.find(&text) {
            Some(0) if ends_range => 7,
            Some(position) => position.div_ceil(3),
            None => text.parse().unwrap(),
        }
    };
    let mut allowed = vec![false; max + 1];
    for item in text.split(',') {
        let (base, step) = item.split_once('/').unwrap_or((item, ""));
        let (first, last) = match base.split_once('-') {
            _ if base == "*" => (min, max),
            Some((first, last)) => (number(first, false), number(last, true)),
            None if step.is_empty() => (number(base, false), number(base, false)),
            None => (number(base, false), max),
        };
        let mut value = first;
        while value <= last {
            allowed[value] = true;
            value += if step.is_empty() { 1 } else { step.parse::<usize>().unwrap() };
        }
    }
    allowed
}

/// The wall time at each minute of a period.
pub(super) struct Window {
    /// The first minute (since the epoch) whose ticks are known.
    pub(super) first: i64,
    /// The last such minute.
    pub(super) last: i64,
    /// From `WARM_UP` before `first` to `last`, in minutes since 1970 on the wall.
    walls: Vec<i64>,
}

impl Window {
    pub(super) fn new(timezone: Tz, first: i64, last: i64) -> Self {
        let walls = (first - WARM_UP..=last).map(|minute| minute + offset(timezone, minute));
        Self { first, last, walls: walls.collect() }
    }

    /// Returns the minutes at which `rule` ticks.
    pub(super) fn ticks(&self, rule: &Rule) -> Vec<i64> {
        let base = self.walls.iter().min().unwrap() - 1;
        let position = |wall: i64| usize::try_from(wall - base).unwrap();
        let mut seen = vec![false; position(*self.walls.iter().max().unwrap()) + 1];
        let mut ticks = Vec::new();
        let mut previous = self.walls[0] - 1;
        for (minute, &wall) in (self.first - WARM_UP..).zip(&self.walls) {
            let due = if rule.every_pass {
                rule.matches(wall)
            } else if seen[position(wall)] {
                false
            } else {
                let mut skipped = (previous + 1)..wall;
                rule.matches(wall)
                    || skipped.any(|wall| !seen[position(wall)] && rule.matches(wall))
            };
            seen[position(wall)] = true;
            previous = wall;
            if due && minute >= self.first {
                ticks.push(minute);
            }
        }
        ticks
    }
}

/// Returns the minutes between `first` and `last` at which the offset of a zone changes.
pub(super) fn changes(timezone: Tz, first: i64, last: i64) -> Vec<i64> {
    let mut changes = Vec::new();
    for hour in (first..last).step_by(60) {
        if offset(timezone, hour) != offset(timezone, hour + 60) {
            let before = offset(timezone, hour);
            changes.extend((hour..=hour + 60).find(|&minute| offset(timezone, minute) != before));
        }
    }
    changes
}

/// Returns the offset of a zone in minutes. In the tested years it is a whole number everywhere.
fn offset(timezone: Tz, minute: i64) -> i64 {
    let utc = DateTime::from_timestamp(minute * 60, 0).unwrap().naive_utc();
    i64::from(timezone.offset_from_utc_datetime(&utc).fix().local_minus_utc()) / 60
}
