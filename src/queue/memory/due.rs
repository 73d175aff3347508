//! The due index of a shard: its schedules, sorted by their next tick.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::time::Duration;

use crate::domain::shard::Epoch;
use crate::domain::{AccountId, ScheduleId, Timestamp};
use crate::queue::{DueTicks, OwnedSchedule};

/// The lowest member in the order of members.
const NONE: OwnedSchedule = OwnedSchedule {
    schedule: ScheduleId::from_bytes([0; 16]),
    account: AccountId::from_bytes([0; 16]),
};

/// A shard's due index.
pub(super) struct DueIndex {
    pub(super) epoch: Epoch,
    ticks: HashMap<OwnedSchedule, Timestamp>,
    ordered: BTreeSet<(Timestamp, OwnedSchedule)>,
}

impl DueIndex {
    pub(super) fn new(epoch: Epoch, entries: &[(OwnedSchedule, Timestamp)]) -> Self {
        let ticks: HashMap<_, _> = entries.iter().copied().collect();
        let ordered = ticks.iter().map(|(schedule, tick)| (*tick, *schedule)).collect();
        Self { epoch, ticks, ordered }
    }

    pub(super) fn set(&mut self, schedule: OwnedSchedule, tick: Option<Timestamp>) {
        let before = match tick {
            Some(tick) => self.ticks.insert(schedule, tick),
            None => self.ticks.remove(&schedule),
        };
        if let Some(before) = before {
            self.ordered.remove(&(before, schedule));
        }
        if let Some(tick) = tick {
            self.ordered.insert((tick, schedule));
        }
    }

    pub(super) fn due(&self, after: Option<Timestamp>, now: Timestamp, limit: usize) -> DueTicks {
        // The range begins with the next millisecond: no member is below `NONE`.
        let first = after.map(|after| (after.plus(Duration::from_millis(1)), NONE));
        let mut entries =
            self.ordered.range((first.map_or(Bound::Unbounded, Bound::Included), Bound::Unbounded));
        let due = entries.clone().take_while(|(tick, _)| *tick <= now).take(limit);
        let schedules: Vec<_> = due.map(|(tick, schedule)| (*schedule, *tick)).collect();
        let next = entries.nth(schedules.len()).map(|(tick, _)| *tick);
        DueTicks { schedules, next }
    }
}
