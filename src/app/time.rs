//! The shared time of all replicas: the store's time.
//!
//! Each replica reads the store's time periodically and lets its own clock follow. The clock is an
//! offset from the monotonic clock, which is never set back. An answer counts as the store's time
//! at its arrival: the replica cannot know which part of the round trip was a wait for a
//! connection, before the store read its clock, and a clock that is ahead would fire early. So the
//! replica's clock is behind the store's by at most the transport time of the answer.
//!
//! Of the last few samples, the one with the largest offset counts, because its answer had the
//! shortest transport time. The offset is limited to what all other samples allow. A sample that
//! contradicts the newest one is dropped: the machine may have been suspended in between.
//!
//! The monotonic clock stands still while the machine is suspended, so afterwards the offset is
//! wrong by that time. The wall clock shows it: the replica's clock is not trusted, and the store's
//! time is read at once. A wall clock that is set forward looks the same, and costs one reading. A
//! machine whose wall clock stood still, too, is noticed only by the next reading.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::domain::Timestamp;
use crate::runtime::{Clock, ClockMoment, LoopPause, RunError, Worker};
use crate::store::{Result, UpkeepStore};

/// The interval at which the store's time is read.
const EVERY: Duration = Duration::from_secs(5);
/// The interval at which the keeper checks that the clock is still trusted.
const CHECK: Duration = Duration::from_millis(250);
/// The time for which an answer is valid.
const SAMPLE_VALID_FOR: Duration = Duration::from_secs(30);
/// The tolerance when samples are compared: the drift of the two clocks, plus the store's rounding.
const DRIFT: Duration = Duration::from_millis(10);
/// The number of samples that are compared.
const COMPARED: usize = 6;

/// The worker that lets the replica's clock follow the store's time.
pub(super) struct TimeKeeper {
    store: Arc<dyn UpkeepStore>,
    clock: Clock,
    samples: VecDeque<StoreTimeSample>,
    /// The moment of the last reading.
    asked: Option<ClockMoment>,
    /// `true` if the end of the clock's trust is logged.
    is_logged: bool,
}

/// A reading of the store's time.
#[derive(Clone, Copy)]
struct StoreTimeSample {
    round_trip: Duration,
    /// The minimum offset of the store's time from the monotonic clock. The true offset is larger
    /// by at most the round trip.
    behind_us: i64,
}

impl TimeKeeper {
    pub(super) fn new(store: Arc<dyn UpkeepStore>, clock: Clock) -> Self {
        Self {
            store,
            clock,
            samples: VecDeque::with_capacity(COMPARED),
            asked: None,
            is_logged: false,
        }
    }

    /// Reads the store's time once and adjusts the clock. Does nothing if the store has no clock of
    /// its own.
    pub(super) async fn ask(&mut self) -> Result<()> {
        let (asked, asked_at) = (self.clock.monotonic(), self.clock.moment());
        let time = self.store.time().await?;
        let answered = self.clock.monotonic();
        self.asked = Some(asked_at);
        let Some(time) = time else { return Ok(()) };
        let sample = sample(answered, answered.saturating_sub(asked), time);
        self.samples.retain(|older| older.agrees_with(&sample));
        if self.samples.len() == COMPARED {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        let behind_us = agreed(&self.samples).unwrap_or(sample.behind_us);
        tracing::debug!(behind_us, round_trip_us = sample.round_trip.as_micros(), "store's time");
        self.clock.sync(behind_us, asked_at, SAMPLE_VALID_FOR);
        Ok(())
    }

    /// Logs once that the clock is not trusted any more.
    fn log_trust(&mut self) {
        let is_trusted = self.clock.is_trusted();
        if !is_trusted && !self.is_logged {
            tracing::warn!(
                "the store's time is unknown (the machine was suspended, its clock was set, or the \
                 store does not answer): starting and firing nothing until it is read"
            );
        }
        self.is_logged = !is_trusted;
    }

    /// Returns `true` if the next reading is due.
    fn must_ask(&self) -> bool {
        let is_old = |asked| self.clock.since(asked) >= EVERY;
        self.asked.is_none_or(is_old) || !self.clock.is_trusted()
    }
}

impl StoreTimeSample {
    /// Returns the maximum offset of the store's time from the monotonic clock.
    fn most_us(&self) -> i64 {
        let round_trip_us = i64::try_from(self.round_trip.as_micros()).unwrap_or(i64::MAX);
        self.behind_us.saturating_add(round_trip_us)
    }

    /// Returns `true` if both samples can be right, within the tolerated drift of the clocks.
    fn agrees_with(&self, other: &Self) -> bool {
        let apart = Duration::from_micros(self.behind_us.abs_diff(other.behind_us));
        // The true offset may exceed the lower sample by that sample's round trip.
        let lower = if self.behind_us < other.behind_us { self } else { other };
        apart <= lower.round_trip + DRIFT
    }
}

/// Returns the offset of the store's time from the monotonic clock that fits all samples: the
/// largest minimum, limited by the smallest maximum.
fn agreed(samples: &VecDeque<StoreTimeSample>) -> Option<i64> {
    let least = samples.iter().map(|sample| sample.behind_us).max()?;
    let most = samples.iter().map(StoreTimeSample::most_us).min()?;
    Some(least.min(most))
}

/// Returns the sample of an answer that arrived at `answered` on the monotonic clock. The store
/// rounds its time down to a millisecond, so half a millisecond is added.
fn sample(answered: Duration, round_trip: Duration, time: Timestamp) -> StoreTimeSample {
    let answered_us = i64::try_from(answered.as_micros()).unwrap_or(i64::MAX);
    let told_us = time.as_millis().saturating_mul(1_000).saturating_add(500);
    StoreTimeSample { round_trip, behind_us: told_us.saturating_sub(answered_us) }
}

#[async_trait]
impl Worker for TimeKeeper {
    async fn run_once(&mut self, _now: Timestamp) -> std::result::Result<LoopPause, RunError> {
        self.log_trust();
        if self.must_ask() {
            self.ask().await?;
        }
        Ok(LoopPause::For(CHECK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::AccountId;
    use crate::store::{PrunedRows, ShardRecord, WaitingJobs};

    /// A store with the machine's time. A call waits `pool` for a connection and then `answer` for
    /// the response.
    struct Slow {
        clock: Clock,
        pool: Duration,
        answer: Duration,
    }

    #[async_trait]
    impl UpkeepStore for Slow {
        async fn ping(&self) -> Result<()> {
            Ok(())
        }

        async fn time(&self) -> Result<Option<Timestamp>> {
            self.clock.sleep_until(self.clock.now().plus(self.pool)).await;
            let now = Timestamp::from_millis(self.clock.machine_us() / 1_000);
            self.clock.sleep_until(self.clock.now().plus(self.answer)).await;
            Ok(Some(now))
        }

        async fn prepare(&self, _: Timestamp) -> Result<()> {
            Ok(())
        }

        async fn prune(&self, _: Timestamp, _: u32) -> Result<PrunedRows> {
            Ok(PrunedRows::default())
        }

        async fn short_histories(&self, _: &str, _: Timestamp, _: u32) -> Result<Vec<AccountId>> {
            Ok(Vec::new())
        }
        async fn prune_account(
            &self,
            _: AccountId,
            _: Timestamp,
            _: Timestamp,
            _: u32,
        ) -> Result<u64> {
            Ok(0)
        }

        async fn prune_keys(&self, _: Timestamp, _: u32) -> Result<u64> {
            Ok(0)
        }

        async fn shard_records(&self, _: Timestamp) -> Result<Vec<ShardRecord>> {
            Ok(Vec::new())
        }

        async fn unfinished(&self, _: u32) -> Result<u64> {
            Ok(0)
        }

        async fn waiting(&self, _: Timestamp, _: u32) -> Result<WaitingJobs> {
            Ok(WaitingJobs::default())
        }
    }

    /// Returns by how many milliseconds a clock is ahead of the machine's time after one reading.
    async fn ahead_ms(pool_ms: u64, answer_ms: u64) -> i64 {
        let [pool, answer] = [pool_ms, answer_ms].map(Duration::from_millis);
        let store = Slow { clock: Clock::system(), pool, answer };
        let clock = Clock::system();
        let mut keeper = TimeKeeper::new(Arc::new(store), clock.clone());
        keeper.ask().await.expect("it tells");
        // In this order, the delay between the two readings makes the clock seem less far ahead.
        let now = clock.now();
        now.as_millis() - clock.machine_us() / 1_000
    }

    #[tokio::test]
    async fn a_wait_for_a_connection_does_not_put_the_clock_ahead() {
        for (pool_ms, answer_ms) in [(0, 0), (400, 0), (400, 50), (0, 50)] {
            let ahead = ahead_ms(pool_ms, answer_ms).await;
            assert!(ahead <= 1, "{ahead} ms ahead: {pool_ms} {answer_ms}");
        }
    }

    #[tokio::test]
    async fn the_time_is_read_when_it_is_old_or_no_longer_trusted() {
        let store = Slow { clock: Clock::system(), pool: Duration::ZERO, answer: Duration::ZERO };
        let clock = Clock::system();
        let mut keeper = TimeKeeper::new(Arc::new(store), clock.clone());
        assert!(keeper.must_ask(), "never read");
        keeper.ask().await.expect("it tells");
        assert!(!keeper.must_ask());
        // As after a suspension of the machine.
        clock.sync(0, clock.moment(), Duration::ZERO);
        assert!(keeper.must_ask());
        keeper.ask().await.expect("it tells");
        assert!(clock.is_trusted() && !keeper.must_ask());
    }

    #[test]
    fn the_answer_is_of_the_time_it_arrives() {
        let time = Timestamp::from_millis(1_000);
        let sample = sample(Duration::from_millis(920), Duration::from_millis(20), time);
        assert_eq!(sample.behind_us, 1_000_500 - 920_000);
    }

    #[test]
    fn of_consistent_samples_the_largest_offset_counts() {
        let samples = |samples: [(u64, i64); 2]| {
            samples.map(|(round_trip, behind_us)| StoreTimeSample {
                round_trip: Duration::from_millis(round_trip),
                behind_us,
            })
        };
        // The second round trip took longer, but its answer had the shorter transport time.
        assert_eq!(agreed(&samples([(10, 5_000), (30, 9_000)]).into()), Some(9_000));
        // The first sample limits the offset, in case the clocks have drifted.
        assert_eq!(agreed(&samples([(1, 5_000), (30, 9_000)]).into()), Some(6_000));
    }

    #[test]
    fn an_answer_that_the_newest_contradicts_is_old() {
        let sample = |round_trip, behind_us| StoreTimeSample {
            round_trip: Duration::from_millis(round_trip),
            behind_us,
        };
        assert!(sample(1, 5_000).agrees_with(&sample(3, 10_000)));
        assert!(sample(1, 95_000).agrees_with(&sample(200, 10_000)), "one that says little");
        assert!(!sample(1, 5_000).agrees_with(&sample(200, 90_000)), "it cannot be less");
        assert!(!sample(1, 5_000).agrees_with(&sample(1, 2_005_000)));
    }
}
