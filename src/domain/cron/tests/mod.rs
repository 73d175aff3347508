//! Checks the cron domain against known values, a walk over every minute, a second crate, and a
//! time limit.

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

/// Returns the instant of a text such as `2026-03-29T01:00`, in UTC.
fn at(text: &str) -> Timestamp {
    format!("{text}:00Z").parse().expect(text)
}

/// Returns the instant of a minute since the epoch.
fn at_minute(minute: i64) -> Timestamp {
    Timestamp::from_millis(minute * 60_000)
}
