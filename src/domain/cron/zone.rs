//! A timezone as the list of times during which its offset stays the same.
//!
//! What the clock on the wall shows follows from it, and so does the one rule that makes a wall
//! time an instant: **a wall time stands for the first instant at which the clock shows it or a
//! later time**. For a time that is shown once that is when it is shown; for a repeated time, its
//! first pass; for a time that is skipped, the end of the gap. Half-hour shifts and skipped days
//! are no special cases.

use std::sync::OnceLock;

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};

/// The end of what is known: 2101-01-01. The compiled-in rules end in 2099, and the crate
/// `cron` with the year 2100.
const KNOWN_UNTIL: i64 = 4_133_980_800;

/// Two changes of a zone's offset are always further apart than this: the closest since 1970
/// are a week less an hour apart.
const SEARCH_STEP: i64 = 4 * 86_400;

/// Before and after everything that is an instant, with room to add an offset.
const FAR: i64 = 1 << 40;

/// A time during which a zone's offset stays the same. All figures are in seconds, instants
/// since the epoch and wall times since 1970 on the wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Its first instant.
    pub(super) start: i64,
    /// The first instant after it.
    pub(super) end: i64,
    /// What the wall shows less UTC.
    pub(super) offset: i64,
    /// The wall time that all spans before it come up to, without ever showing it.
    pub(super) reach: i64,
}

impl Span {
    /// What the wall shows at its first instant.
    pub(super) fn first_wall(&self) -> i64 {
        self.start + self.offset
    }

    /// What the wall comes up to at its end.
    pub(super) fn end_wall(&self) -> i64 {
        self.end + self.offset
    }

    /// The `reach` of the span after it.
    pub(super) fn reach_after(&self) -> i64 {
        self.reach.max(self.end_wall())
    }
}

/// The spans of a zone, without holes, from before the epoch to after everything.
#[derive(Debug)]
pub(super) struct Zone {
    spans: Vec<Span>,
}

impl Zone {
    /// The zone of `tz`. Finding its spans takes a millisecond, so each zone's are found once
    /// and kept: they follow from the compiled-in data alone.
    pub(super) fn of(tz: Tz) -> &'static Self {
        static ZONES: [OnceLock<Zone>; TZ_VARIANTS.len()] =
            [const { OnceLock::new() }; TZ_VARIANTS.len()];
        ZONES[tz as usize].get_or_init(|| Self::find(tz))
    }

    fn find(tz: Tz) -> Self {
        let mut spans = Vec::new();
        let mut span = Span { start: -FAR, end: FAR, offset: offset_at(tz, 0), reach: -FAR };
        span.reach = span.first_wall();
        let mut from = 0;
        while from < KNOWN_UNTIL {
            let until = from + SEARCH_STEP;
            let offset = offset_at(tz, until);
            if offset != span.offset {
                span.end = first_change(tz, from, until);
                spans.push(span);
                span = Span { start: span.end, end: FAR, offset, reach: span.reach_after() };
            }
            from = until;
        }
        spans.push(span);
        Self { spans }
    }

    /// All spans, earliest first.
    pub(super) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The position of the span that `instant` is in.
    pub(super) fn position(&self, instant: i64) -> usize {
        self.spans.partition_point(|span| span.start <= instant).saturating_sub(1)
    }
}

/// The first instant of another offset, of which there is one change after `from` up to `until`.
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
