//! The cron domain held to values known from elsewhere, to a walk over every minute, to a second
//! crate, and to its bound on time.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod brute;
mod hostile;
mod properties;
mod refusals;
mod second_opinion;
mod table;
mod words;
mod zones;

use crate::domain::Timestamp;

/// The instant of a text such as `2026-03-29T01:00`, in UTC.
fn at(text: &str) -> Timestamp {
    format!("{text}:00Z").parse().expect(text)
}

/// The instant of a minute since the epoch.
fn at_minute(minute: i64) -> Timestamp {
    Timestamp::from_millis(minute * 60_000)
}
