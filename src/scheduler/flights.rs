//! Tracks the running calls of a pass and their age.

use std::time::Duration;

use super::pending::DueTick;

/// The age from which a call is slow. Nothing else waits for a slow call: the ticks of a slow batch
/// are tried once more in another batch. The store lets only one of the two fire.
pub(super) const LONG: Duration = Duration::from_secs(1);

/// The running calls of a pass.
#[derive(Default)]
pub(super) struct RunningCalls {
    flights: Vec<RunningCall>,
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
    fn is_long(&self, monotonic: Duration) -> bool {
        monotonic >= self.since + LONG
    }
}

impl RunningCalls {
    /// Registers a call that starts now, and returns its number.
    pub(super) fn take_off(&mut self, monotonic: Duration, due: Vec<DueTick>) -> u64 {
        self.last += 1;
        self.flights.push(RunningCall { number: self.last, since: monotonic, due });
        self.last
    }

    /// Removes a call that has ended. Returns its ticks, unless they were released before.
    pub(super) fn land(&mut self, number: u64) -> Vec<DueTick> {
        let place = self.flights.iter().position(|flight| flight.number == number);
        place.map_or_else(Vec::new, |place| self.flights.swap_remove(place).due)
    }

    /// Returns the ticks of slow calls, each once.
    pub(super) fn release_long(&mut self, monotonic: Duration) -> Vec<DueTick> {
        let long = self.flights.iter_mut().filter(|flight| flight.is_long(monotonic));
        long.flat_map(|flight| std::mem::take(&mut flight.due)).collect()
    }

    /// Returns `true` if a call is slow.
    pub(super) fn is_any_long(&self, monotonic: Duration) -> bool {
        self.flights.iter().any(|flight| flight.is_long(monotonic))
    }

    /// Returns the time at which the next call becomes slow.
    pub(super) fn next_long(&self, monotonic: Duration) -> Option<Duration> {
        let others = self.flights.iter().filter(|flight| !flight.is_long(monotonic));
        others.map(|flight| flight.since + LONG).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::shard::ShardId;
    use crate::domain::{AccountId, ScheduleId, Timestamp};
    use crate::queue::OwnedSchedule;

    #[test]
    fn long_flights_are_released_once() {
        let (at, mut flights) = (Timestamp::from_millis(0), RunningCalls::default());
        let member =
            OwnedSchedule { schedule: ScheduleId::new(at, 1), account: AccountId::new(at, 1) };
        let due = vec![DueTick { shard: ShardId(0), member, tick: at }];
        let (early, late) = (Duration::from_secs(5), Duration::from_millis(5_500));
        let first = flights.take_off(early, due.clone());
        let second = flights.take_off(late, due.clone());
        assert_eq!(flights.next_long(late), Some(early + LONG));
        assert!(!flights.is_any_long(late));
        assert_eq!(flights.release_long(early + LONG), due);
        assert_eq!(flights.release_long(early + LONG), []);
        assert!(flights.is_any_long(early + LONG));
        assert_eq!(flights.next_long(early + LONG), Some(late + LONG));
        assert_eq!((flights.land(first), flights.land(second)), (vec![], due));
        assert_eq!((flights.land(first), flights.next_long(early)), (vec![], None));
    }
}
