//! Shards: a fixed number of partitions of the schedules, each fired by one leader.

use std::fmt;

use super::ScheduleId;

/// One partition of the schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

impl ShardId {
    /// Returns the shard of a schedule if there are `shards` of them. The lower half of an id is
    /// random, so it serves as its own hash.
    ///
    /// # Panics
    /// If `shards` is 0.
    pub fn of(schedule: ScheduleId, shards: u16) -> Self {
        let hash = u128::from_be_bytes(schedule.to_bytes()) & u128::from(u64::MAX);
        let shard = hash % u128::from(shards);
        Self(u16::try_from(shard).expect("a remainder is below its divisor"))
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number that fences a leader: a later leader of a shard has a higher epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub i64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;

    #[test]
    fn schedules_spread_evenly() {
        let random = crate::runtime::Random::seeded(1);
        let mut counts = [0_u32; 64];
        for _ in 0..64_000 {
            let id = ScheduleId::new(Timestamp::from_millis(1), random.bits());
            counts[usize::from(ShardId::of(id, 64).0)] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
