//! Tracks the running calls of a pass and their age.

use std::time::Duration;

use super::pending::DueTick;

/// The age from which a call is slow. Nothing else waits for a slow call: the ticks of a slow batch
/// are tried once more in another batch. The store lets only one of the two fire.
pub(super) const SLOW_AFTER: Duration = Duration::from_secs(1);

/// The running calls of a pass.
#[derive(Default)]
pub(super) struct RunningCalls {
    calls: Vec<RunningCall>,
    last: u64,
}

struct RunningCall {
    number: u64,
    /// The start of the call, on the monotonic clock.
    since: Duration,
    /// The ticks that are being fired. Empty once they were released because the call is slow.
    due: Vec<DueTick>,
}

impl RunningCall {
    fn is_slow(&self, monotonic: Duration) -> bool {
        monotonic >= self.since + SLOW_AFTER
    }
}

impl RunningCalls {
    /// Registers a call that starts now, and returns its number.
    pub(super) fn start(&mut self, monotonic: Duration, due: Vec<DueTick>) -> u64 {
        self.last += 1;
        self.calls.push(RunningCall { number: self.last, since: monotonic, due });
        self.last
    }

    /// Removes a call that has ended. Returns its ticks, unless they were released before.
    pub(super) fn finish(&mut self, number: u64) -> Vec<DueTick> {
        let position = self.calls.iter().position(|call| call.number == number);
        position.map_or_else(Vec::new, |position| self.calls.swap_remove(position).due)
    }

    /// Returns the ticks of slow calls, each once.
    pub(super) fn release_slow(&mut self, monotonic: Duration) -> Vec<DueTick> {
        let slow = self.calls.iter_mut().filter(|call| call.is_slow(monotonic));
        slow.flat_map(|call| std::mem::take(&mut call.due)).collect()
    }

    /// Returns `true` if a call is slow.
    pub(super) fn is_any_slow(&self, monotonic: Duration) -> bool {
        self.calls.iter().any(|call| call.is_slow(monotonic))
    }

    /// Returns the time at which the next call becomes slow.
    pub(super) fn next_slow(&self, monotonic: Duration) -> Option<Duration> {
        let others = self.calls.iter().filter(|call| !call.is_slow(monotonic));
        others.map(|call| call.since + SLOW_AFTER).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::shard::ShardId;
    use crate::domain::{AccountId, ScheduleId, Timestamp};
    use crate::queue::OwnedSchedule;

    #[test]
    fn slow_calls_are_released_once() {
        let (at, mut calls) = (Timestamp::from_millis(0), RunningCalls::default());
        let member =
            OwnedSchedule { schedule: ScheduleId::new(at, 1), account: AccountId::new(at, 1) };
        let due = vec![DueTick { shard: ShardId(0), member, tick: at }];
        let (early, late) = (Duration::from_secs(5), Duration::from_millis(5_500));
        let first = calls.start(early, due.clone());
        let second = calls.start(late, due.clone());
        assert_eq!(calls.next_slow(late), Some(early + SLOW_AFTER));
        assert!(!calls.is_any_slow(late));
        assert_eq!(calls.release_slow(early + SLOW_AFTER), due);
        assert_eq!(calls.release_slow(early + SLOW_AFTER), []);
        assert!(calls.is_any_slow(early + SLOW_AFTER));
        assert_eq!(calls.next_slow(early + SLOW_AFTER), Some(late + SLOW_AFTER));
        assert_eq!((calls.finish(first), calls.finish(second)), (vec![], due));
        assert_eq!((calls.finish(first), calls.next_slow(early)), (vec![], None));
    }
}
