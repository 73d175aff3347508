//! A shard's due index: its schedules by their next tick.

use std::collections::{BTreeSet, HashMap};

use crate::domain::shard::Epoch;
use crate::domain::{ScheduleId, Timestamp};
use crate::queue::Due;

/// A shard's due index.
pub(super) struct DueIndex {
    pub(super) epoch: Epoch,
    ticks: HashMap<ScheduleId, Timestamp>,
    ordered: BTreeSet<(Timestamp, ScheduleId)>,
}

impl DueIndex {
    pub(super) fn new(epoch: Epoch, entries: &[(ScheduleId, Timestamp)]) -> Self {
        let ticks: HashMap<_, _> = entries.iter().copied().collect();
        let ordered = ticks.iter().map(|(schedule, tick)| (*tick, *schedule)).collect();
        Self { epoch, ticks, ordered }
    }

    pub(super) fn set(&mut self, schedule: ScheduleId, tick: Option<Timestamp>) {
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

    pub(super) fn due(&self, now: Timestamp, limit: usize) -> Due {
        let mut entries = self.ordered.iter();
        let due = entries.clone().take_while(|(tick, _)| *tick <= now).take(limit);
        let schedules: Vec<_> = due.map(|(tick, schedule)| (*schedule, *tick)).collect();
        let next = entries.nth(schedules.len()).map(|(tick, _)| *tick);
        Due { schedules, next }
    }
}
