//! What a round has under way, and for how long.

use std::time::Duration;

use super::pending::DueTick;

/// What takes longer keeps nothing else waiting: a batch that has not come back is tried once more by
/// another one. The store lets one of them fire.
pub(super) const LONG: Duration = Duration::from_secs(1);

/// What is under way.
#[derive(Default)]
pub(super) struct Flights {
    flights: Vec<Flight>,
    last: u64,
}

struct Flight {
    number: u64,
    /// Since when, on the monotonic clock.
    since: Duration,
    /// What is being fired, until that takes long.
    due: Vec<DueTick>,
}

impl Flight {
    fn is_long(&self, monotonic: Duration) -> bool {
        monotonic >= self.since + LONG
    }
}

impl Flights {
    /// Something is under way from now on.
    pub(super) fn take_off(&mut self, monotonic: Duration, due: Vec<DueTick>) -> u64 {
        self.last += 1;
        self.flights.push(Flight { number: self.last, since: monotonic, due });
        self.last
    }

    /// It has come back: what was being fired, unless that took long.
    pub(super) fn land(&mut self, number: u64) -> Vec<DueTick> {
        let place = self.flights.iter().position(|flight| flight.number == number);
        place.map_or_else(Vec::new, |place| self.flights.swap_remove(place).due)
    }

    /// What has been being fired for long, once.
    pub(super) fn release_long(&mut self, monotonic: Duration) -> Vec<DueTick> {
        let long = self.flights.iter_mut().filter(|flight| flight.is_long(monotonic));
        long.flat_map(|flight| std::mem::take(&mut flight.due)).collect()
    }

    /// Whether something takes long.
    pub(super) fn is_any_long(&self, monotonic: Duration) -> bool {
        self.flights.iter().any(|flight| flight.is_long(monotonic))
    }

    /// When the next one will have taken long.
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
    use crate::queue::Member;

    #[test]
    fn what_takes_long_is_released_once() {
        let (at, mut flights) = (Timestamp::from_millis(0), Flights::default());
        let member = Member { schedule: ScheduleId::new(at, 1), account: AccountId::new(at, 1) };
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
