//! The finished jobs of an account in periods of a range.
//!
//! The store counts jobs by hour (UTC). Longer periods begin on the clock of the visitor's zone. In
//! a zone whose offset is no whole number of hours, an hour belongs to the period in which it
//! begins.

use chrono::{Datelike, Timelike};
use chrono_tz::Tz;

use crate::dashboard::form::FormFields;
use crate::dashboard::time::ShownZone;
use crate::domain::Timestamp;
use crate::domain::hours::{AccountHour, HOUR_MS, hour_of};

/// The span of time of the charts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ActivityRange {
    /// 24 hours, by the hour.
    #[default]
    Day,
    /// 7 days, by 6 hours.
    Week,
    /// 30 days, by the day.
    Month,
}

impl ActivityRange {
    pub(super) const ALL: [Self; 3] = [Self::Day, Self::Week, Self::Month];

    /// Returns the range that an address names; without a name, or with an unknown one, a day.
    pub(super) fn read(fields: &FormFields) -> Self {
        let name = fields.text("range");
        Self::ALL.into_iter().find(|range| range.name() == name).unwrap_or_default()
    }

    /// Returns the name in the address.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
        }
    }

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Day => "24 hours",
            Self::Week => "7 days",
            Self::Month => "30 days",
        }
    }

    /// Returns the number of periods, including the present one.
    const fn periods(self) -> usize {
        match self {
            Self::Day => 24,
            Self::Week => 7 * 4,
            Self::Month => 30,
        }
    }

    /// Returns the length of a period in words.
    pub(super) const fn period(self) -> &'static str {
        match self {
            Self::Day => "hour",
            Self::Week => "6 hours",
            Self::Month => "day",
        }
    }

    /// Returns the periods and the range in words.
    pub(super) fn by_period(self) -> String {
        format!("per {} in the last {}", self.period(), self.text())
    }

    /// Returns the maximum number of hours of a period. A day on which clocks are set back has 25.
    const fn most_hours(self) -> i64 {
        match self {
            Self::Day => 1,
            Self::Week => 7,
            Self::Month => 25,
        }
    }

    /// Returns a value that is the same for all hours of a period, and differs between consecutive
    /// periods. `start` is the start of the hour.
    fn period_of(self, start: i64, zone: Tz) -> (i64, u32) {
        let local = Timestamp::from_millis(start).to_utc().with_timezone(&zone);
        let day = i64::from(local.num_days_from_ce());
        match self {
            Self::Day => (start, 0),
            Self::Week => (day, local.hour() / 6),
            Self::Month => (day, 0),
        }
    }

    /// Returns the start of a period on the clock of a zone.
    pub(super) fn clock(self, start: Timestamp, zone: ShownZone) -> String {
        match self {
            Self::Day => zone.weekday_text(start),
            Self::Week => zone.formatted(start, "%a %-d %b, %H:%M", "%a %-d %b, %-I:%M %p"),
            Self::Month => zone.formatted(start, "%a %-d %b", "%a %-d %b"),
        }
    }
}

/// The finished jobs of a range, by period.
#[derive(Debug)]
pub(super) struct Activity {
    pub(super) range: ActivityRange,
    /// The periods in order. The last one is not over.
    pub(super) periods: Vec<AccountHour>,
}

impl Activity {
    /// Returns a range that ends at `now`, with periods without jobs.
    pub(super) fn empty(range: ActivityRange, now: Timestamp, zone: Tz) -> Self {
        let present = hour_of(now).as_millis();
        let hours = i64::try_from(range.periods()).unwrap_or(0) * range.most_hours();
        let mut starts: Vec<i64> = Vec::new();
        let mut last = None;
        // One hour more shows whether a period begins with the first hour.
        for start in (0..=hours).rev().map(|before| present - before * HOUR_MS) {
            let period = range.period_of(start, zone);
            if last.is_some_and(|last| last != period) {
                starts.push(start);
            }
            last = Some(period);
        }
        let starts = starts.split_off(starts.len().saturating_sub(range.periods()));
        let period = |start: i64| AccountHour::empty(Timestamp::from_millis(start));
        Self { range, periods: starts.into_iter().map(period).collect() }
    }

    /// Returns the start of the range.
    pub(super) fn from(&self) -> Timestamp {
        self.periods.first().map_or(Timestamp::from_millis(0), |period| period.start)
    }

    /// Adds hours to their periods.
    pub(super) fn add(&mut self, hours: &[AccountHour]) {
        for hour in hours {
            let after = self.periods.partition_point(|period| period.start <= hour.start);
            if let Some(period) = after.checked_sub(1).and_then(|at| self.periods.get_mut(at)) {
                period.add(hour);
            }
        }
    }

    pub(super) fn sum(&self) -> AccountHour {
        let mut sum = AccountHour::empty(self.from());
        self.periods.iter().for_each(|period| sum.add(period));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("an instant")
    }

    fn starts(range: ActivityRange, now: &str, zone: Tz) -> Vec<String> {
        let activity = Activity::empty(range, at(now), zone);
        activity.periods.iter().map(|period| period.start.to_string()[..16].to_owned()).collect()
    }

    #[test]
    fn periods_begin_on_the_clock_of_the_visitor() {
        let hours = starts(ActivityRange::Day, "2026-11-26T08:59:59Z", Tz::Europe__Berlin);
        assert_eq!((hours.len(), hours[0].as_str()), (24, "2026-11-25T09:00"));
        assert_eq!(hours[23], "2026-11-26T08:00", "the present hour is the last one");
        let quarters = starts(ActivityRange::Week, "2026-11-26T08:30:00Z", Tz::Europe__Berlin);
        assert_eq!((quarters.len(), quarters[0].as_str()), (28, "2026-11-19T11:00"));
        assert_eq!(quarters[26..], ["2026-11-25T23:00", "2026-11-26T05:00"]);
        let days = starts(ActivityRange::Month, "2026-11-26T08:30:00Z", Tz::Europe__Berlin);
        // Clocks were set back on 25 October, before the range.
        assert_eq!((days.len(), days[0].as_str()), (30, "2026-10-27T23:00"));
        assert_eq!(days[29], "2026-11-25T23:00");
    }

    #[test]
    fn a_change_of_clocks_makes_a_day_longer_or_shorter() {
        let days = starts(ActivityRange::Month, "2026-10-26T12:00:00Z", Tz::Europe__Berlin);
        assert_eq!(
            (days.len(), &days[28..]),
            (30, &["2026-10-24T22:00", "2026-10-25T23:00"].map(str::to_owned)[..])
        );
        let days = starts(ActivityRange::Month, "2026-03-30T12:00:00Z", Tz::Europe__Berlin);
        assert_eq!(days[28..], ["2026-03-28T23:00", "2026-03-29T22:00"]);
        for now in ["2026-10-25T23:30:00Z", "2026-03-29T23:30:00Z"] {
            let quarters = starts(ActivityRange::Week, now, Tz::Europe__Berlin);
            assert_eq!(quarters.len(), 28, "{now}");
        }
        // An hour that is divided between two days belongs to the first one.
        let days = starts(ActivityRange::Month, "2026-11-26T08:30:00Z", Tz::Asia__Kolkata);
        assert_eq!(days[29], "2026-11-25T19:00");
    }

    fn hour(start: &str, succeeded: u64, failed: u64) -> AccountHour {
        let lags = [succeeded, 0, 0, 0, 0, failed, 0, 0];
        AccountHour { succeeded, failed, lags, ..AccountHour::empty(at(start)) }
    }

    fn activity(range: ActivityRange, hours: &[AccountHour]) -> Activity {
        let mut activity = Activity::empty(range, at("2026-11-26T08:30:00Z"), Tz::UTC);
        activity.add(hours);
        activity
    }

    #[test]
    fn hours_are_added_to_their_periods() {
        let hours = [
            hour("2026-11-25T23:00:00Z", 1, 0),
            hour("2026-11-26T00:00:00Z", 2, 0),
            hour("2026-11-26T05:00:00Z", 4, 1),
            hour("2026-11-26T06:00:00Z", 8, 0),
        ];
        let of = |range, count| {
            let Activity { periods, .. } = activity(range, &hours);
            let last = periods[periods.len() - count..].iter();
            last.map(|period| (period.succeeded, period.failed)).collect::<Vec<_>>()
        };
        assert_eq!(of(ActivityRange::Month, 2), [(1, 0), (14, 1)]);
        assert_eq!(of(ActivityRange::Week, 3), [(1, 0), (6, 1), (8, 0)]);
        assert_eq!(of(ActivityRange::Day, 4), [(4, 1), (8, 0), (0, 0), (0, 0)]);
    }
}
