//! A circuit breaker for the rate-limit counters that all replicas share.
//!
//! A call that waits for an unavailable queue is delayed. After one failed call, other calls
//! therefore use the local counters for a moment, and then one call tries again.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use crate::domain::Timestamp;
use crate::queue::{QueueError, Result};

/// The pause after a failed call, counted from the start of that call. It is longer than any call
/// waits for the counters.
const BACK_OFF: Duration = Duration::from_secs(5);
/// The time without a failure after which the recovery is logged. Intermittent failures are thus
/// logged only once.
const WELL_AFTER: Duration = Duration::from_secs(10);
/// The value for "no pause".
const NONE: i64 = i64::MIN;

/// The state of the circuit breaker.
pub(super) struct SharedCounters {
    /// The end of the current pause, in milliseconds.
    back_off_until: AtomicI64,
    /// The start of the last failed call, in milliseconds.
    failed_at: AtomicI64,
    /// `true` if the failure was logged.
    is_told: AtomicBool,
}

impl Default for SharedCounters {
    fn default() -> Self {
        let never = || AtomicI64::new(NONE);
        Self { back_off_until: never(), failed_at: never(), is_told: AtomicBool::new(false) }
    }
}

impl SharedCounters {
    /// Awaits `call`, which begins now. Returns `None` during a pause or if the call fails.
    pub(super) async fn ask<T>(
        &self,
        now: Timestamp,
        call: impl Future<Output = Result<T>>,
    ) -> Option<T> {
        if !self.may_ask(now) {
            return None;
        }
        match call.await {
            Ok(answer) => {
                self.answered(now);
                Some(answer)
            }
            Err(error) => {
                self.failed(now, &error);
                None
            }
        }
    }

    /// Returns `true` if a call that begins now may use the counters. After a pause only the first
    /// call may.
    fn may_ask(&self, now: Timestamp) -> bool {
        let until = self.back_off_until.load(Ordering::Relaxed);
        let next = now.plus(BACK_OFF).as_millis();
        // A pause is never longer than `BACK_OFF`. A later end means that the clock was set back.
        let is_backing_off = (now.as_millis() + 1..=next).contains(&until);
        let swap = |to| {
            self.back_off_until.compare_exchange(until, to, Ordering::Relaxed, Ordering::Relaxed)
        };
        until == NONE || !is_backing_off && swap(next).is_ok()
    }

    /// Records the success of a call that began at `began`.
    fn answered(&self, began: Timestamp) {
        let failed_at = Timestamp::from_millis(self.failed_at.load(Ordering::Relaxed));
        // A later call has failed since, and its result is newer.
        if began <= failed_at {
            return;
        }
        self.back_off_until.store(NONE, Ordering::Relaxed);
        if began >= failed_at.plus(WELL_AFTER) && self.is_told.swap(false, Ordering::Relaxed) {
            tracing::info!("shared rate-limit counters are available again");
        }
    }

    /// Records the failure of a call that began at `began`.
    fn failed(&self, began: Timestamp, error: &QueueError) {
        self.back_off_until.fetch_max(began.plus(BACK_OFF).as_millis(), Ordering::Relaxed);
        self.failed_at.store(began.as_millis(), Ordering::Relaxed);
        if !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "shared rate-limit counters failed, this replica counts alone");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(1_900_000_000_000 + seconds * 1_000)
    }

    fn fail(counters: &SharedCounters, began: i64) {
        counters.failed(at(began), &QueueError::new("count", "away"));
    }

    #[test]
    fn one_call_in_a_while_asks_those_that_fail() {
        let counters = SharedCounters::default();
        assert!(counters.may_ask(at(0)) && counters.may_ask(at(0)), "all ask while they answer");
        fail(&counters, 1);
        assert!(!counters.may_ask(at(1)), "they are not asked for again at once");
        assert!(!counters.may_ask(at(5)), "nor while they have hung");
        assert!(counters.may_ask(at(6)), "one tries");
        assert!(!counters.may_ask(at(6)), "and no other");
        counters.answered(at(6));
        assert!(counters.may_ask(at(6)) && counters.may_ask(at(6)));
    }

    #[test]
    fn an_earlier_call_neither_ends_nor_shortens_a_rest() {
        let counters = SharedCounters::default();
        fail(&counters, 3);
        counters.answered(at(2));
        assert!(!counters.may_ask(at(7)));
        assert!(counters.may_ask(at(8)), "one tries");
        fail(&counters, 3);
        assert!(!counters.may_ask(at(12)), "the one that tries is waited for");
        assert!(counters.may_ask(at(13)));
    }

    #[test]
    fn no_rest_is_longer_because_the_clock_is_set_back() {
        let counters = SharedCounters::default();
        fail(&counters, 3_600);
        assert!(counters.may_ask(at(0)), "one tries");
        assert!(!counters.may_ask(at(4)));
        assert!(counters.may_ask(at(5)));
    }

    #[test]
    fn intermittent_failures_are_logged_once() {
        let counters = SharedCounters::default();
        for second in [0, 5, 12] {
            fail(&counters, second);
            counters.answered(at(second + 1));
            assert!(counters.is_told.load(Ordering::Relaxed), "{second}");
        }
        counters.answered(at(21));
        assert!(counters.is_told.load(Ordering::Relaxed), "nine seconds are too few");
        counters.answered(at(22));
        assert!(!counters.is_told.load(Ordering::Relaxed));
    }
}
