//! The five fields of an expression, and the number of wall times that they match.
//!
//! Counting is arithmetic on bits, month by month, so that counting the ticks of a long outage
//! costs a microsecond however dense they are.

use chrono::{Datelike, Months, NaiveDate};

use super::set::NumberSet;

const MINUTES_PER_DAY: i64 = 24 * 60;

/// The unit of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldUnit {
    Minute,
    Hour,
    Day,
    Month,
    Weekday,
}

impl FieldUnit {
    /// Returns the smallest number that a field may contain.
    pub(super) fn min(self) -> u32 {
        match self {
            Self::Minute | Self::Hour | Self::Weekday => 0,
            Self::Day | Self::Month => 1,
        }
    }

    /// Returns the largest number that a field may contain. For weekdays it is 7, which is Sunday
    /// like 0.
    pub(super) fn max(self) -> u32 {
        match self {
            Self::Minute => 59,
            Self::Hour => 23,
            Self::Day => 31,
            Self::Month => 12,
            Self::Weekday => 7,
        }
    }

    /// Returns all distinct values: 7, the second Sunday, is left out.
    pub(super) fn all(self) -> NumberSet {
        NumberSet::range(self.min(), if self == Self::Weekday { 6 } else { self.max() })
    }
}

/// The form in which a field was written, as far as it affects the meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldForm {
    /// `*`
    Star,
    /// `*/n` and nothing else.
    StarStep(u32),
    /// A list that begins with `*`.
    StarList,
    /// Anything else.
    List,
}

/// One field: the allowed values and the form in which it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CronField {
    pub(super) unit: FieldUnit,
    /// Sunday is 0 here, never 7.
    pub(super) set: NumberSet,
    pub(super) form: FieldForm,
}

impl CronField {
    /// Returns `true` if it allows every value of its unit.
    pub(super) fn is_full(&self) -> bool {
        self.set == self.unit.all()
    }

    /// Returns `true` if it counts as a restriction by the rule for the two day fields, which
    /// depends on the form of the field.
    fn is_restricted(&self) -> bool {
        self.form == FieldForm::List
    }
}

/// The five fields of an expression. At least one wall time matches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CronFields {
    pub(super) minute: CronField,
    pub(super) hour: CronField,
    pub(super) day: CronField,
    pub(super) month: CronField,
    pub(super) weekday: CronField,
}

impl CronFields {
    /// Returns `true` if a day matches when one of the two day fields does, `false` if both must
    /// match.
    pub(super) fn either_day(&self) -> bool {
        self.day.is_restricted() && self.weekday.is_restricted()
    }

    /// Returns `true` if each pass of a repeated wall time counts: the hour is `*` or `*/n`.
    /// Otherwise a wall time stands for one instant.
    pub(super) fn every_pass(&self) -> bool {
        matches!(self.hour.form, FieldForm::Star | FieldForm::StarStep(_))
    }

    /// Returns `true` if the day of month and the month allow a date that exists, at least in a
    /// leap year. Every weekday falls on every date at some point, so weekdays do not matter.
    pub(super) fn has_a_date(&self) -> bool {
        self.month.set.iter().any(|month| !self.day.set.both(longest_month(month)).is_empty())
    }

    /// Returns the number of matching wall times from `first` to `last`, both included, in seconds
    /// of wall time since 1970.
    pub(super) fn count(&self, first: i64, last: i64) -> u64 {
        let (from, until) = (-(-first).div_euclid(60), last.div_euclid(60) + 1);
        if from >= until {
            return 0;
        }
        let (first_day, last_day) =
            (from.div_euclid(MINUTES_PER_DAY), until.div_euclid(MINUTES_PER_DAY));
        let per_day = u64::from(self.minute.set.len() * self.hour.set.len());
        let whole = self.count_days(first_day, last_day) * per_day;
        whole + self.count_in_day_before(until) - self.count_in_day_before(from)
    }

    /// Returns the number of matching times that precede `minute` (since 1970) on its day.
    fn count_in_day_before(&self, minute: i64) -> u64 {
        let (day, minute) =
            (minute.div_euclid(MINUTES_PER_DAY), minute.rem_euclid(MINUTES_PER_DAY));
        if self.count_days(day, day + 1) == 0 {
            return 0;
        }
        let minute = u32::try_from(minute).unwrap_or(0);
        let (hour, minute) = (minute / 60, minute % 60);
        let this_hour = if self.hour.set.contains(hour) { 1 } else { 0 };
        let earlier_hours = self.hour.set.len_below(hour) * self.minute.set.len();
        u64::from(earlier_hours + this_hour * self.minute.set.len_below(minute))
    }

    /// Returns the number of matching days from `first` to before `end`, in days since 1970.
    fn count_days(&self, first: i64, end: i64) -> u64 {
        let date = |day| i32::try_from(day).ok().and_then(NaiveDate::from_epoch_days);
        let (Some(first), Some(end)) = (date(first), date(end)) else { return 0 };
        let mut count = 0;
        let mut next = first;
        while next < end {
            let days = self.days_of(next);
            let following =
                next.with_day0(0).and_then(|date| date.checked_add_months(Months::new(1)));
            let Some(following) = following else { break };
            let before_end = if end < following { days.len_below(end.day()) } else { days.len() };
            count += u64::from(before_end - days.len_below(next.day()));
            next = following;
        }
        count
    }

    /// Returns the matching days in the month of `date`.
    fn days_of(&self, date: NaiveDate) -> NumberSet {
        if !self.month.set.contains(date.month()) {
            return NumberSet::default();
        }
        let weekday_of_first = (date.weekday().num_days_from_sunday() + 36 - date.day()) % 7;
        let by_weekday = self.weekday.set.on_days(weekday_of_first);
        let chosen = if self.either_day() {
            self.day.set.union(by_weekday)
        } else {
            self.day.set.both(by_weekday)
        };
        chosen.both(NumberSet::range(1, u32::from(date.num_days_in_month())))
    }
}

/// Returns the days of a month in a leap year.
pub(super) fn longest_month(month: u32) -> NumberSet {
    let days = match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    NumberSet::range(1, days)
}
