//! The time that replicas share: the store's.
//!
//! Each asks the store for its time again and again and lets its own clock follow: the store's time
//! is kept as a distance from the monotonic clock, which nobody sets. An answer is as exact as its
//! round trip is short, so of the last few the one with the shortest counts; but not one that the
//! newest contradicts, as after a machine was suspended.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;

use crate::domain::Timestamp;
use crate::runtime::{Clock, Pause, RunError, Worker};
use crate::store::{Result, SharedStore};

/// How often the store is asked.
const EVERY: Duration = Duration::from_secs(5);
/// For how long an answer is believed.
const BELIEVED: Duration = Duration::from_secs(30);
/// How far two clocks may drift apart while answers are compared, and the store's rounding.
const DRIFT: Duration = Duration::from_millis(10);
/// How many answers are compared.
const COMPARED: usize = 6;

/// Lets the clock follow the store's.
pub(super) struct TimeKeeper {
    store: SharedStore,
    clock: Clock,
    samples: VecDeque<Sample>,
}

/// An answer of the store.
#[derive(Clone, Copy)]
struct Sample {
    round_trip: Duration,
    behind_us: i64,
}

impl TimeKeeper {
    pub(super) fn new(store: SharedStore, clock: Clock) -> Self {
        Self { store, clock, samples: VecDeque::with_capacity(COMPARED) }
    }

    /// Asks the store once.
    pub(super) async fn ask(&mut self) -> Result<()> {
        let asked = self.clock.monotonic();
        let Some(time) = self.store.time().await? else { return Ok(()) };
        let answered = self.clock.monotonic();
        let sample = sample(asked, answered.saturating_sub(asked), time);
        self.samples.retain(|older| older.agrees_with(&sample));
        if self.samples.len() == COMPARED {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        let best = self.samples.iter().min_by_key(|sample| sample.round_trip);
        let behind_us = best.unwrap_or(&sample).behind_us;
        tracing::debug!(behind_us, round_trip_us = sample.round_trip.as_micros(), "store's time");
        self.clock.follow(behind_us, asked + BELIEVED);
        Ok(())
    }
}

impl Sample {
    /// Whether both can be right, and clocks that drift a little while they are compared.
    fn agrees_with(&self, other: &Self) -> bool {
        let apart = Duration::from_micros(self.behind_us.abs_diff(other.behind_us));
        apart <= (self.round_trip + other.round_trip) / 2 + DRIFT
    }
}

/// The store has told its time in the middle of the round trip, rounded down to a millisecond.
fn sample(asked: Duration, round_trip: Duration, time: Timestamp) -> Sample {
    let asked_us = i64::try_from(asked.as_micros()).unwrap_or(i64::MAX);
    let half = i64::try_from(round_trip.as_micros() / 2).unwrap_or(i64::MAX);
    let told_us = time.as_millis().saturating_mul(1_000).saturating_add(500);
    Sample { round_trip, behind_us: told_us.saturating_sub(asked_us.saturating_add(half)) }
}

#[async_trait]
impl Worker for TimeKeeper {
    async fn run_once(&mut self, _now: Timestamp) -> std::result::Result<Pause, RunError> {
        self.ask().await?;
        Ok(Pause::For(EVERY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_of_the_middle_of_the_round_trip() {
        let time = Timestamp::from_millis(1_000);
        let asked = Duration::from_millis(900);
        let sample = sample(asked, Duration::from_millis(20), time);
        assert_eq!(sample.behind_us, 1_000_500 - 910_000);
    }

    #[test]
    fn an_answer_that_the_newest_contradicts_is_old() {
        let sample = |round_trip, behind_us| Sample {
            round_trip: Duration::from_millis(round_trip),
            behind_us,
        };
        assert!(sample(1, 5_000).agrees_with(&sample(3, 10_000)));
        assert!(sample(1, 5_000).agrees_with(&sample(200, 90_000)), "one that says little");
        assert!(!sample(1, 5_000).agrees_with(&sample(1, 2_005_000)));
    }
}
