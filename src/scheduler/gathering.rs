//! The wait of due ticks for those of other shards, so that they share a batch.
//!
//! While one account has 100,000 due ticks, the attempts of the first batches would take the
//! processor from the reads that bring the ticks of other accounts. So no batch is fired while
//! shards keep bringing due ticks, for a limited time. A shard whose read hangs delays the others
//! only briefly.

use std::time::Duration;

/// The time that due ticks wait for those of the next shard.
const NEXT: Duration = Duration::from_millis(5);
/// The time that is added to it for each tick that waits. Firing that tick takes longer. So few
/// ticks wait for a short time, and a burst waits until the ticks of all shards have arrived.
const NEXT_PER_TICK: Duration = Duration::from_micros(10);
/// The longest time that due ticks wait for those of all shards. A slow machine needs more than
/// 100 ms to read a burst of 100,000, and shards that are read later wait for the attempts of four
/// batches.
const ALL: Duration = Duration::from_millis(200);

/// The wait of due ticks for those of other shards, on the monotonic clock.
#[derive(Clone, Copy)]
pub(super) struct Gathering {
    began: Duration,
    /// The time at which a batch is fired although more ticks may come.
    pub(super) until: Duration,
}

impl Gathering {
    /// Begins when the first shard has brought due ticks. `waiting` is their number.
    pub(super) fn new(now: Duration, waiting: usize) -> Self {
        let mut gathering = Self { began: now, until: now };
        gathering.extend(now, waiting);
        gathering
    }

    /// One that ends at once.
    pub(super) fn over(now: Duration) -> Self {
        Self { began: now.saturating_sub(ALL), until: now }
    }

    /// Goes on because another shard has brought due ticks. `waiting` ticks wait now.
    pub(super) fn extend(&mut self, now: Duration, waiting: usize) {
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        let next = NEXT.saturating_add(NEXT_PER_TICK.saturating_mul(waiting));
        self.until = now.saturating_add(next).min(self.began + ALL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_while_ticks_come_but_not_for_ever() {
        let ms = Duration::from_millis;
        let mut gathering = Gathering::new(ms(1_000), 0);
        assert_eq!(gathering.until, ms(1_005));
        gathering.extend(ms(1_004), 0);
        assert_eq!(gathering.until, ms(1_009));
        gathering.extend(ms(1_199), 0);
        assert_eq!(gathering.until, ms(1_200));
        let mut over = Gathering::over(ms(1_000));
        over.extend(ms(1_000), 0);
        assert_eq!(over.until, ms(1_000), "it is not begun again");
    }

    #[test]
    fn a_burst_waits_longer_for_the_others_than_a_few_ticks() {
        let ms = Duration::from_millis;
        let mut gathering = Gathering::new(ms(0), 1_500);
        assert_eq!(gathering.until, ms(20));
        gathering.extend(ms(20), 3_000);
        assert_eq!(gathering.until, ms(55));
        gathering.extend(ms(55), usize::MAX);
        assert_eq!(gathering.until, ms(200));
    }
}
