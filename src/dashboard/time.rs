//! Times and durations as pages show them.

use std::time::Duration;

use chrono_tz::Tz;
use maud::{Markup, html};

use crate::domain::Timestamp;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The zone in which times are shown, and the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShownZone {
    pub(super) zone: Tz,
    /// `true` for times such as `5:40 PM`.
    pub(super) has_12_hour_clock: bool,
}

impl From<Tz> for ShownZone {
    fn from(zone: Tz) -> Self {
        Self { zone, has_12_hour_clock: false }
    }
}

impl ShownZone {
    /// Returns the IANA name of the zone.
    pub(super) fn name(self) -> &'static str {
        self.zone.name()
    }

    /// Returns the same clock in another zone.
    pub(super) fn in_zone(self, zone: Tz) -> Self {
        Self { zone, ..self }
    }

    /// Returns an instant as a text, such as `25 Nov 2026, 17:40:05` or `25 Nov 2026, 5:40:05 PM`.
    pub(super) fn text(self, at: Timestamp) -> String {
        self.formatted(at, "%-d %b %Y, %H:%M:%S", "%-d %b %Y, %-I:%M:%S %p")
    }

    /// Returns the weekday and the minute of an instant, such as `Wed 17:40` or `Wed 5:40 PM`.
    pub(super) fn weekday_text(self, at: Timestamp) -> String {
        self.formatted(at, "%a %H:%M", "%a %-I:%M %p")
    }

    /// Returns an instant in the format for the clock.
    pub(super) fn formatted(self, at: Timestamp, of_24_hours: &str, of_12_hours: &str) -> String {
        let form = if self.has_12_hour_clock { of_12_hours } else { of_24_hours };
        at.to_utc().with_timezone(&self.zone).format(form).to_string()
    }
}

/// Renders an instant in a zone, such as `25 Nov 2026, 17:40:05`. The title is in UTC.
pub(super) fn instant(at: Timestamp, zone: ShownZone) -> Markup {
    let utc = at.to_utc().format("%Y-%m-%d %H:%M:%S%.3f UTC").to_string();
    html! { time datetime=(at) title=(utc) { (zone.text(at)) } }
}

/// Renders an instant by its distance from now, such as `in 5 min` or `2 h ago`. The title has the
/// instant.
pub(super) fn relative(at: Timestamp, now: Timestamp, zone: ShownZone) -> Markup {
    let short = at.to_utc().with_timezone(&zone.zone).format("%Z").to_string();
    let text = if at > now {
        format!("in {}", rough(at.since(now)))
    } else if now.since(at) < Duration::from_secs(1) {
        "just now".to_owned()
    } else {
        format!("{} ago", rough(now.since(at)))
    };
    html! { time.short datetime=(at) title={ (zone.text(at)) " " (short) } { (text) } }
}

/// Returns a duration in its largest unit: `45 s`, `5 min`, `3 h`, `2 d`.
pub(super) fn rough(span: Duration) -> String {
    match span.as_secs() {
        seconds if seconds < MINUTE => format!("{seconds} s"),
        seconds if seconds < HOUR => format!("{} min", seconds / MINUTE),
        seconds if seconds < 2 * DAY => format!("{} h", seconds / HOUR),
        seconds => format!("{} d", seconds / DAY),
    }
}

/// Returns a duration of milliseconds: `480 ms`, `1.5 s`, `2 min 5 s`.
pub(super) fn millis(ms: u32) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", f64::from(ms) / 1_000.0),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_in_the_unit_that_people_use() {
        let texts =
            [5, 59, 60, 3_599, 3_600, 2 * DAY - 1, 2 * DAY].map(|s| rough(Duration::from_secs(s)));
        assert_eq!(texts, ["5 s", "59 s", "1 min", "59 min", "1 h", "47 h", "2 d"]);
        assert_eq!([0, 999, 1_500, 125_000].map(millis), ["0 ms", "999 ms", "1.5 s", "2 min 5 s"]);
    }

    #[test]
    fn an_instant_is_shown_in_the_zone_and_in_utc() {
        let at: Timestamp = "2026-07-01T22:30:00Z".parse().expect("an instant");
        let text = instant(at, Tz::Europe__Berlin.into()).into_string();
        assert!(text.contains(">2 Jul 2026, 00:30:00<"), "{text}");
        assert!(text.contains("2026-07-01 22:30:00.000 UTC"), "{text}");
        let twelve = ShownZone { zone: Tz::Europe__Berlin, has_12_hour_clock: true };
        assert!(instant(at, twelve).into_string().contains(">2 Jul 2026, 12:30:00 AM<"));
        assert_eq!(twelve.weekday_text(at), "Thu 12:30 AM");
        let before = at.minus(Duration::from_secs(300));
        assert!(relative(at, before, Tz::UTC.into()).into_string().contains(">in 5 min<"));
        assert!(relative(before, at, Tz::UTC.into()).into_string().contains(">5 min ago<"));
    }
}
