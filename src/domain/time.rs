//! Instants: milliseconds since the Unix epoch, UTC.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant, in whole milliseconds since 1970-01-01T00:00:00Z.
///
/// Its text form is ISO 8601 in UTC with milliseconds and `Z`, the only form that leaves the
/// service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The start of the year 10000: the first instant that the text form cannot show.
    const END: i64 = 253_402_300_800_000;

    /// Returns the instant `ms` milliseconds after the epoch, clamped to the years 1970 to 9999.
    pub const fn from_millis(ms: i64) -> Self {
        if ms < 0 {
            Self(0)
        } else if ms >= Self::END {
            Self(Self::END - 1)
        } else {
            Self(ms)
        }
    }

    /// Returns the milliseconds since the epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the instant `span` later.
    pub fn plus(self, span: Duration) -> Self {
        let ms = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.0.saturating_add(ms))
    }

    /// Returns the instant `span` earlier, or the epoch.
    pub fn minus(self, span: Duration) -> Self {
        let ms = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        Self::from_millis(self.0.saturating_sub(ms))
    }

    /// Returns the time from `earlier` to this instant; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }

    /// Returns the same instant for calendar arithmetic.
    pub fn to_utc(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0).unwrap_or_default()
    }
}

impl From<DateTime<Utc>> for Timestamp {
    fn from(value: DateTime<Utc>) -> Self {
        Self::from_millis(value.timestamp_millis())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_utc().to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

/// The error for a text that is not an instant.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("must be an ISO 8601 instant with an offset, such as 2030-01-31T09:00:00Z")]
pub struct InvalidTimestamp;

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    /// Reads RFC 3339; any offset is accepted and converted to UTC.
    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        let parsed = DateTime::parse_from_rfc3339(text).map_err(|_| InvalidTimestamp)?;
        let ms = parsed.timestamp_millis();
        if (0..Self::END).contains(&ms) { Ok(Self(ms)) } else { Err(InvalidTimestamp) }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_has_milliseconds_and_z() {
        let t = Timestamp::from_millis(1_700_000_000_007);
        assert_eq!(t.to_string(), "2023-11-14T22:13:20.007Z");
        assert_eq!(t.to_string().parse(), Ok(t));
        assert_eq!("2023-11-14T23:13:20.007+01:00".parse(), Ok(t));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "2023-11-14", "2023-11-14T22:13:20", "1969-01-01T00:00:00Z", "now"] {
            assert_eq!(text.parse::<Timestamp>(), Err(InvalidTimestamp), "{text}");
        }
    }

    #[test]
    fn arithmetic_saturates() {
        let end = Timestamp::from_millis(i64::MAX);
        assert_eq!(end.to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(end.plus(Duration::MAX), end);
        assert_eq!(end.minus(Duration::MAX), Timestamp::from_millis(0));
        assert_eq!(Timestamp::from_millis(5).since(Timestamp::from_millis(9)), Duration::ZERO);
    }
}
