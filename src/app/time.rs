//! The time that replicas share: the store's.
//!
//! Each asks the store for its time again and again and lets its own clock follow: the store's time
//! is kept as a distance from the monotonic clock, which nobody sets. The answer is taken for the
//! time at which it arrives, whatever it has taken: nobody knows which part of the round trip was a
//! wait for a connection, before the store looked at its clock, and a clock that ran ahead would
//! fire early. So this one is behind the store's by the way of the answer, at most. Of the last few answers
//! the one counts that says most, which was under way for the shortest time, as far as the others
//! allow; but none that the newest contradicts, as after a machine was suspended.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::domain::Timestamp;
use crate::runtime::{Clock, Pause, RunError, Worker};
use crate::store::{Result, UpkeepStore};

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
    store: Arc<dyn UpkeepStore>,
    clock: Clock,
    samples: VecDeque<Sample>,
}

/// An answer of the store.
#[derive(Clone, Copy)]
struct Sample {
    round_trip: Duration,
    /// How far the monotonic clock is behind the store's, or less, by the round trip at most.
    behind_us: i64,
}

impl TimeKeeper {
    pub(super) fn new(store: Arc<dyn UpkeepStore>, clock: Clock) -> Self {
        Self { store, clock, samples: VecDeque::with_capacity(COMPARED) }
    }

    /// Asks the store once.
    pub(super) async fn ask(&mut self) -> Result<()> {
        let asked = self.clock.monotonic();
        let Some(time) = self.store.time().await? else { return Ok(()) };
        let answered = self.clock.monotonic();
        let sample = sample(answered, answered.saturating_sub(asked), time);
        self.samples.retain(|older| older.agrees_with(&sample));
        if self.samples.len() == COMPARED {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        let behind_us = agreed(&self.samples).unwrap_or(sample.behind_us);
        tracing::debug!(behind_us, round_trip_us = sample.round_trip.as_micros(), "store's time");
        self.clock.follow(behind_us, asked + BELIEVED);
        Ok(())
    }
}

impl Sample {
    /// How far the monotonic clock may be behind the store's.
    fn most_us(&self) -> i64 {
        let round_trip_us = i64::try_from(self.round_trip.as_micros()).unwrap_or(i64::MAX);
        self.behind_us.saturating_add(round_trip_us)
    }

    /// Whether both can be right, and clocks that drift a little while they are compared.
    fn agrees_with(&self, other: &Self) -> bool {
        let apart = Duration::from_micros(self.behind_us.abs_diff(other.behind_us));
        // The one that says less has as much more to say as its answer was under way.
        let lower = if self.behind_us < other.behind_us { self } else { other };
        apart <= lower.round_trip + DRIFT
    }
}

/// How far the monotonic clock is behind the store's by all samples: no less than any says, and no
/// more than any allows.
fn agreed(samples: &VecDeque<Sample>) -> Option<i64> {
    let least = samples.iter().map(|sample| sample.behind_us).max()?;
    let most = samples.iter().map(Sample::most_us).min()?;
    Some(least.min(most))
}

/// An answer that arrives when the monotonic clock shows `answered`. The store has rounded its time
/// down to a millisecond; so half of one is made good.
fn sample(answered: Duration, round_trip: Duration, time: Timestamp) -> Sample {
    let answered_us = i64::try_from(answered.as_micros()).unwrap_or(i64::MAX);
    let told_us = time.as_millis().saturating_mul(1_000).saturating_add(500);
    Sample { round_trip, behind_us: told_us.saturating_sub(answered_us) }
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
    use crate::domain::AccountId;
    use crate::store::{ShardRecord, Upkeep, Waiting};

    /// A store whose time the machine shows, and which is asked through a pool: so long does it
    /// take to get a connection, and then the answer.
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

        async fn prune(&self, _: Timestamp, _: u32) -> Result<Upkeep> {
            Ok(Upkeep::default())
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

        async fn waiting(&self, _: Timestamp, _: u32) -> Result<Waiting> {
            Ok(Waiting::default())
        }
    }

    /// How far a clock is ahead of the machine's, in milliseconds, which has asked once.
    async fn ahead_ms(pool_ms: u64, answer_ms: u64) -> i64 {
        let [pool, answer] = [pool_ms, answer_ms].map(Duration::from_millis);
        let store = Slow { clock: Clock::system(), pool, answer };
        let clock = Clock::system();
        let mut keeper = TimeKeeper::new(Arc::new(store), clock.clone());
        keeper.ask().await.expect("it tells");
        // In this order, what lies between them makes the clock seem ahead by less.
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

    #[test]
    fn the_answer_is_of_the_time_it_arrives() {
        let time = Timestamp::from_millis(1_000);
        let sample = sample(Duration::from_millis(920), Duration::from_millis(20), time);
        assert_eq!(sample.behind_us, 1_000_500 - 920_000);
    }

    #[test]
    fn of_answers_that_agree_the_one_that_says_most_counts() {
        let samples = |samples: [(u64, i64); 2]| {
            samples.map(|(round_trip, behind_us)| Sample {
                round_trip: Duration::from_millis(round_trip),
                behind_us,
            })
        };
        // Its round trip was longer, but the way of its answer shorter.
        assert_eq!(agreed(&samples([(10, 5_000), (30, 9_000)]).into()), Some(9_000));
        // No more than the other allows, should clocks have drifted.
        assert_eq!(agreed(&samples([(1, 5_000), (30, 9_000)]).into()), Some(6_000));
    }

    #[test]
    fn an_answer_that_the_newest_contradicts_is_old() {
        let sample = |round_trip, behind_us| Sample {
            round_trip: Duration::from_millis(round_trip),
            behind_us,
        };
        assert!(sample(1, 5_000).agrees_with(&sample(3, 10_000)));
        assert!(sample(1, 95_000).agrees_with(&sample(200, 10_000)), "one that says little");
        assert!(!sample(1, 5_000).agrees_with(&sample(200, 90_000)), "it cannot be less");
        assert!(!sample(1, 5_000).agrees_with(&sample(1, 2_005_000)));
    }
}
