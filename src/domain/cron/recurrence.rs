//! The ticks of a schedule: an expression on the wall clock of a timezone.
//!
//! An expression whose hour is `*` or `*/n` is matched against the wall time at each real minute: a
//! repeated minute ticks twice, a skipped one never. For all other expressions, each matching wall
//! time stands for one instant by the rule of [`super::zone`]. So a skipped time ticks at the end
//! of the gap and a repeated time at its first pass; times that fall on one instant are one tick.

use chrono_tz::Tz;

use super::zone::{OffsetSpan, Zone};
use super::{Cron, InvalidCron, InvalidTimezone, parse_timezone};
use crate::domain::Timestamp;

/// A cron expression in a timezone. Its ticks are whole minutes on the wall or ends of gaps, in the
/// years 1970 to 2100 of the wall. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recurrence {
    cron: Cron,
    timezone: Tz,
    zone: &'static Zone,
}

/// The invalid part of a recurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRecurrence {
    /// The expression.
    #[error(transparent)]
    Cron(#[from] InvalidCron),
    /// The timezone.
    #[error(transparent)]
    Timezone(#[from] InvalidTimezone),
}

impl Recurrence {
    /// Returns the ticks of `cron` in `timezone`.
    pub fn new(cron: Cron, timezone: Tz) -> Self {
        Self { cron, timezone, zone: Zone::of(timezone) }
    }

    /// Reads both texts; if both are wrong, the expression is reported.
    pub fn parse(expression: &str, timezone: &str) -> Result<Self, InvalidRecurrence> {
        Ok(Self::new(Cron::parse(expression)?, parse_timezone(timezone)?))
    }

    /// Returns the expression.
    pub fn cron(&self) -> &Cron {
        &self.cron
    }

    /// Returns the timezone.
    pub fn timezone(&self) -> Tz {
        self.timezone
    }

    pub(super) fn zone(&self) -> &'static Zone {
        self.zone
    }

    /// Returns the first tick after `at`, never `at` itself; `None` if there is none up to the year
    /// 2100.
    pub fn next_after(&self, at: Timestamp) -> Option<Timestamp> {
        let at = at.as_millis().div_euclid(1000);
        let tick =
            if self.cron.fields().every_pass() { self.next_pass(at) } else { self.next_once(at) };
        tick.map(from_seconds)
    }

    /// Returns the last tick from `from` to `to`, both included. The search goes backwards from
    /// `to`, so that its cost does not depend on the number of ticks.
    pub fn latest_within(&self, from: Timestamp, to: Timestamp) -> Option<Timestamp> {
        let (from, to) = whole_seconds(from, to)?;
        let tick = if self.cron.fields().every_pass() {
            self.latest_pass(from, to)
        } else {
            self.latest_once(to)
        };
        tick.filter(|&tick| tick >= from).map(from_seconds)
    }

    /// Returns the number of ticks from `from` to `to`, both included, or `cap` if there are more.
    /// Its cost grows with the number of months, not with the number of ticks.
    pub fn count_within(&self, from: Timestamp, to: Timestamp, cap: u64) -> u64 {
        let Some((from, to)) = whole_seconds(from, to) else { return 0 };
        let spans = &self.zone.spans()[self.zone.position(from)..];
        let mut count = 0;
        for span in spans.iter().take_while(|span| span.start <= to) {
            count += self.count_in_span(span, from.max(span.start), to.min(span.end - 1));
            if count >= cap {
                return cap;
            }
        }
        count
    }

    /// Returns the number of ticks from `from` to `to`, which are both in `span`.
    fn count_in_span(&self, span: &OffsetSpan, from: i64, to: i64) -> u64 {
        let (first, last) = (from + span.offset, to + span.offset);
        if self.cron.fields().every_pass() {
            return self.cron.fields().count(first, last);
        }
        let after_gap = from == span.start && span.reach < first;
        if after_gap {
            // The skipped times and the time at the end of the gap are one tick.
            let at_end_of_gap = self.cron.fields().count(span.reach, first).min(1);
            at_end_of_gap + self.cron.fields().count(first + 1, last)
        } else {
            self.cron.fields().count(first.max(span.reach), last)
        }
    }

    fn next_once(&self, at: i64) -> Option<i64> {
        let spans = &self.zone.spans()[self.zone.position(at)..];
        let now = spans.first()?;
        // The latest time that the wall has shown so far; during a second pass it is later than the
        // current wall time.
        let seen = (at + now.offset).max(now.reach - 1);
        let wall = self.cron.evaluation().after(seen)?;
        let span = spans.iter().find(|span| wall < span.reach_after())?;
        Some(span.start.max(wall - span.offset))
    }

    fn latest_once(&self, to: i64) -> Option<i64> {
        let spans = &self.zone.spans()[..=self.zone.position(to)];
        let now = spans.last()?;
        let wall = self.cron.evaluation().before((to + now.offset + 1).max(now.reach))?;
        let span = spans.iter().rev().find(|span| span.reach <= wall)?;
        Some(span.start.max(wall - span.offset))
    }

    /// Goes from span to span. Nothing matches between `after` and `wall`, so the expression is
    /// evaluated again only if a span shows wall times outside of that range.
    fn next_pass(&self, at: i64) -> Option<i64> {
        let spans = &self.zone.spans()[self.zone.position(at)..];
        let mut after = at + spans.first()?.offset;
        let mut wall = self.cron.evaluation().after(after)?;
        for span in spans {
            let before_first = span.first_wall() - 1;
            if before_first < after && span.start > at || before_first >= wall {
                after = before_first;
                wall = self.cron.evaluation().after(after)?;
            }
            if wall < span.end_wall() {
                return Some(wall - span.offset);
            }
        }
        None
    }

    /// The mirror image of `next_pass`, down to `from`.
    fn latest_pass(&self, from: i64, to: i64) -> Option<i64> {
        let spans = &self.zone.spans()[..=self.zone.position(to)];
        let mut before = to + spans.last()?.offset + 1;
        let mut wall = self.cron.evaluation().before(before)?;
        for span in spans.iter().rev().take_while(|span| span.end > from) {
            let end = span.end_wall();
            if end > before && span.end <= to || end <= wall {
                before = end;
                wall = self.cron.evaluation().before(before)?;
            }
            if wall >= span.first_wall() {
                return Some(wall - span.offset);
            }
        }
        None
    }
}

/// Returns the first and the last whole second from `from` to `to`; `None` if there are none. Ticks
/// are whole seconds.
fn whole_seconds(from: Timestamp, to: Timestamp) -> Option<(i64, i64)> {
    let first = -(-from.as_millis()).div_euclid(1000);
    let last = to.as_millis().div_euclid(1000);
    (first <= last).then_some((first, last))
}

fn from_seconds(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds.saturating_mul(1000))
}
