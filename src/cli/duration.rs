//! Durations on the command line: `90s`, `15m`, `12h`, `30d`.

use std::time::Duration;

/// The maximum duration, in seconds: 100 years.
const MAX_SECONDS: u64 = 100 * 365 * 24 * 60 * 60;

/// Parses a whole number followed by s, m, h or d.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(60 * 60),
        "d" => Some(24 * 60 * 60),
        _ => None,
    };
    let number = number.parse::<u64>().ok();
    let seconds = number.zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
    match seconds.filter(|seconds| (1..=MAX_SECONDS).contains(seconds)) {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => Err("must be a whole number followed by s, m, h or d, such as 30d".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)));
        }
        for wrong in ["", "30", "d", "0d", "-1d", "1.5h", "1w", "1 d", "1dd", "99999999999d"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
