//! Compares the spans of every zone with the data from which they are derived.

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::TZ_VARIANTS;

use crate::domain::cron::zone::Zone;

/// The first second of 2101.
const END: i64 = 4_133_980_800;

#[test]
fn spans_show_what_the_data_show() {
    // Less than half the search step, and not a multiple of a day, so that the times of day vary.
    const STEP: usize = 163_019;
    for timezone in TZ_VARIANTS {
        let zone = Zone::of(timezone);
        for instant in (0..END).step_by(STEP) {
            let utc = DateTime::from_timestamp(instant, 0).unwrap().naive_utc();
            let offset = timezone.offset_from_utc_datetime(&utc).fix().local_minus_utc();
            let span = zone.spans()[zone.position(instant)];
            assert!(span.start <= instant && instant < span.end, "{timezone} {instant}");
            assert_eq!(span.offset, i64::from(offset), "{timezone} {instant}");
        }
    }
}

/// The search would miss a change that is undone before its next step.
#[test]
fn changes_are_further_apart_than_the_steps_of_the_search() {
    for timezone in TZ_VARIANTS {
        let starts: Vec<_> = Zone::of(timezone).spans().iter().map(|span| span.start).collect();
        for pair in starts.windows(2) {
            assert!(pair[1] - pair[0] > 6 * 86_400, "{timezone}: {pair:?}");
        }
    }
}

#[test]
fn spans_have_no_holes() {
    for timezone in TZ_VARIANTS {
        for pair in Zone::of(timezone).spans().windows(2) {
            assert_eq!(pair[0].end, pair[1].start, "{timezone}");
            assert_ne!(pair[0].offset, pair[1].offset, "{timezone}");
            assert_eq!(pair[1].reach, pair[0].reach_after(), "{timezone}");
        }
    }
}
