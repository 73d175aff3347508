//! Times and durations in human-readable form.

use std::time::Duration;

use chrono_tz::Tz;

use crate::domain::Timestamp;
use crate::domain::cron::parse_timezone;

const FORMAT: &str = "%Y-%m-%d %H:%M:%S";

/// Formats an instant in UTC: `2024-05-15 12:00:00 UTC`.
pub fn utc(at: Timestamp) -> String {
    format!("{} UTC", at.to_utc().format(FORMAT))
}

/// Formats an instant in a timezone and in UTC:
/// `2024-05-15 14:00:00 Europe/Berlin (2024-05-15 12:00:00 UTC)`. Uses only UTC if the timezone is
/// UTC or unknown.
pub fn local(at: Timestamp, timezone: &str) -> String {
    match parse_timezone(timezone) {
        Ok(zone) if !matches!(zone, Tz::UTC | Tz::Etc__UTC) => {
            let local = at.to_utc().with_timezone(&zone);
            format!("{} {} ({})", local.format(FORMAT), zone.name(), utc(at))
        }
        _ => utc(at),
    }
}

/// Formats a duration: `230 ms`, `12.4 s`, `1 min 30 s`, `14 min`, `5 h 12 min`, `3 d 2 h`.
pub fn span(span: Duration) -> String {
    let (ms, seconds) = (span.as_millis(), span.as_secs());
    // 59.96 s would otherwise be shown as 60.0 s.
    if ms < 1_000 {
        return format!("{ms} ms");
    }
    if ms < 59_950 {
        return format!("{:.1} s", span.as_secs_f64());
    }
    let two = |major: u64, unit: &str, minor: u64, small: &str| match minor {
        0 => format!("{major} {unit}"),
        _ => format!("{major} {unit} {minor} {small}"),
    };
    match seconds.max(60) {
        seconds @ ..600 => two(seconds / 60, "min", seconds % 60, "s"),
        seconds @ ..3_600 => format!("{} min", seconds / 60),
        seconds @ ..172_800 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        seconds => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        for (ms, text) in [
            (0, "0 ms"),
            (230, "230 ms"),
            (12_449, "12.4 s"),
            (59_970, "1 min"),
            (90_000, "1 min 30 s"),
            (840_000, "14 min"),
            (899_000, "14 min"),
            (18_720_000, "5 h 12 min"),
            (266_400_000, "3 d 2 h"),
        ] {
            assert_eq!(span(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn instants() {
        let at: Timestamp = "2024-05-14T22:30:00.999Z".parse().expect("an instant");
        assert_eq!(
            local(at, "Europe/Berlin"),
            "2024-05-15 00:30:00 Europe/Berlin (2024-05-14 22:30:00 UTC)"
        );
        for zone in ["UTC", "Etc/UTC", "Mars/Olympus"] {
            assert_eq!(local(at, zone), "2024-05-14 22:30:00 UTC");
        }
    }
}
