//! A timezone as the list of spans during which its offset stays the same.
//!
//! The wall time at each instant follows from it, and so does the one rule that converts a wall
//! time to an instant: **a wall time stands for the first instant at which the clock shows it or a
//! later time**. For a time that the clock shows once, that is when the clock shows it; for a
//! repeated time, its first pass; for a skipped time, the end of the gap. Half-hour shifts and
//! skipped days are no special cases.

use std::sync::OnceLock;

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};

/// The end of the known rules: 2101-01-01. The compiled-in rules end in 2099, and the crate `cron`
/// ends with the year 2100.
const KNOWN_UNTIL: i64 = 4_133_980_800;

/// A lower bound of the distance between two changes of a zone's offset, in seconds. The closest
/// two since 1970 are a week less an hour apart.
const SEARCH_STEP: i64 = 4 * 86_400;

/// The limit for instants before and after all known ones, with room to add an offset.
const FAR: i64 = 1 << 40;

/// A span during which a zone's offset stays the same. All values are in seconds: instants since
/// the epoch, wall times since 1970 on the wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OffsetSpan {
    /// Its first instant.
    pub(super) start: i64,
    /// The first instant after it.
    pub(super) end: i64,
    /// The wall time minus UTC.
    pub(super) offset: i64,
    /// The exclusive upper bound of the wall times that earlier spans have shown.
    pub(super) reach: i64,
}

impl OffsetSpan {
    /// Returns the wall time at its first instant.
    pub(super) fn first_wall(&self) -> i64 {
        self.start + self.offset
    }

    /// Returns the exclusive upper bound of its wall times.
    pub(super) fn end_wall(&self) -> i64 {
        self.end + self.offset
    }

    /// Returns the `reach` of the next span.
    pub(super) fn reach_after(&self) -> i64 {
        self.reach.max(self.end_wall())
    }
}

/// The spans of a zone, without holes, from before the epoch to after all known instants.
#[derive(Debug)]
pub(super) struct Zone {
    spans: Vec<OffsetSpan>,
}

impl Zone {
    /// Returns the zone of `tz`. Finding its spans takes a millisecond, so each zone's spans are
    /// found once and kept. They depend only on the compiled-in data.
    pub(super) fn of(tz: Tz) -> &'static Self {
        static ZONES: [OnceLock<Zone>; TZ_VARIANTS.len()] =
            [const { OnceLock::new() }; TZ_VARIANTS.len()];
        ZONES[tz as usize].get_or_init(|| Self::find(tz))
    }

    fn find(tz: Tz) -> Self {
        let mut spans = Vec::new();
        let mut span = OffsetSpan { start: -FAR, end: FAR, offset: offset_at(tz, 0), reach: -FAR };
        span.reach = span.first_wall();
        let mut from = 0;
        while from < KNOWN_UNTIL {
            let until = from + SEARCH_STEP;
            let offset = offset_at(tz, until);
            if offset != span.offset {
                span.end = first_change(tz, from, until);
                spans.push(span);
                span = OffsetSpan { start: span.end, end: FAR, offset, reach: span.reach_after() };
            }
            from = until;
        }
        spans.push(span);
        Self { spans }
    }

    /// Returns all spans, earliest first.
    pub(super) fn spans(&self) -> &[OffsetSpan] {
        &self.spans
    }

    /// Returns the index of the span that contains `instant`.
    pub(super) fn position(&self, instant: i64) -> usize {
        self.spans.partition_point(|span| span.start <= instant).saturating_sub(1)
    }
}

/// Returns the first instant with another offset. There must be exactly one change after `from` up
/// to `until`.
fn first_change(tz: Tz, mut from: i64, mut until: i64) -> i64 {
    let offset = offset_at(tz, from);
    while until - from > 1 {
        let middle = from + (until - from) / 2;
        if offset_at(tz, middle) == offset { from = middle } else { until = middle }
    }
    until
}

fn offset_at(tz: Tz, instant: i64) -> i64 {
    let utc = DateTime::from_timestamp(instant, 0).unwrap_or_default().naive_utc();
    tz.offset_from_utc_datetime(&utc).fix().local_minus_utc().into()
}
