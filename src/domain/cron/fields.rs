//! The five fields of an expression, and how many wall times they match.
//!
//! Counting is arithmetic on bits, month by month, so that counting the ticks of a long outage
//! costs a microsecond however dense they are.

use chrono::{Datelike, Months, NaiveDate};

use super::set::Set;

const MINUTES_PER_DAY: i64 = 24 * 60;

/// What a field counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Minute,
    Hour,
    Day,
    Month,
    Weekday,
}

impl Unit {
    /// The smallest number a field may hold.
    pub(super) fn min(self) -> u32 {
        match self {
            Self::Minute | Self::Hour | Self::Weekday => 0,
            Self::Day | Self::Month => 1,
        }
    }

    /// The largest number a field may hold. For weekdays it is 7, which is Sunday as 0 is.
    pub(super) fn max(self) -> u32 {
        match self {
            Self::Minute => 59,
            Self::Hour => 23,
            Self::Day => 31,
            Self::Month => 12,
            Self::Weekday => 7,
        }
    }

    /// Every number that is a value of its own: without the second Sunday.
    pub(super) fn all(self) -> Set {
        Set::range(self.min(), if self == Self::Weekday { 6 } else { self.max() })
    }
}

/// How a field was written, as far as that changes its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `*`
    Star,
    /// `*/n` and nothing else.
    StarStep(u32),
    /// A list that begins with `*`.
    StarList,
    /// Anything else.
    List,
}

/// One field: what it allows and how it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) unit: Unit,
    /// Sunday is 0 here, never 7.
    pub(super) set: Set,
    pub(super) form: Form,
}

impl Field {
    /// Whether it allows every value of its unit.
    pub(super) fn is_full(&self) -> bool {
        self.set == self.unit.all()
    }

    /// Whether it counts as a restriction by the rule for the two day fields, which goes by
    /// how the field is written.
    fn is_restricted(&self) -> bool {
        self.form == Form::List
    }
}

/// The five fields of an expression. At least one wall time matches them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) minute: Field,
    pub(super) hour: Field,
    pub(super) day: Field,
    pub(super) month: Field,
    pub(super) weekday: Field,
}

impl Fields {
    /// Whether a day matches if either of the two day fields does, not only if both do.
    pub(super) fn either_day(&self) -> bool {
        self.day.is_restricted() && self.weekday.is_restricted()
    }

    /// Whether wall times are taken as they come, each time they come: the hour is `*` or
    /// `*/n`. Otherwise a wall time stands for one instant.
    pub(super) fn every_pass(&self) -> bool {
        matches!(self.hour.form, Form::Star | Form::StarStep(_))
    }

    /// Whether a date exists, in a leap year at least, that the day of month and the month
    /// allow. Every weekday falls on every date sooner or later, so weekdays play no part.
    pub(super) fn has_a_date(&self) -> bool {
        self.month.set.iter().any(|month| !self.day.set.both(longest_month(month)).is_empty())
    }

    /// How many wall times from `first` to `last`, both included, in seconds of wall time
    /// since 1970, match.
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

    /// How many times of the day of `minute` (since 1970) that come before it match.
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

    /// How many days from `first` to before `end`, in days since 1970, match.
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

    /// The days of the month of `date` that match.
    fn days_of(&self, date: NaiveDate) -> Set {
        if !self.month.set.contains(date.month()) {
            return Set::default();
        }
        let weekday_of_first = (date.weekday().num_days_from_sunday() + 36 - date.day()) % 7;
        let by_weekday = self.weekday.set.on_days(weekday_of_first);
        let chosen = if self.either_day() {
            self.day.set.union(by_weekday)
        } else {
            self.day.set.both(by_weekday)
        };
        chosen.both(Set::range(1, u32::from(date.num_days_in_month())))
    }
}

/// The days a month has in a leap year.
pub(super) fn longest_month(month: u32) -> Set {
    let days = match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    Set::range(1, days)
}
