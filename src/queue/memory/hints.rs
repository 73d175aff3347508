//! Hints that wait for the leaders of their shards.

use std::collections::{BTreeSet, HashMap};

use crate::domain::shard::ShardId;
use crate::queue::{OwnedSchedule, ShardChanges};

/// The hints for each shard.
#[derive(Default)]
pub(super) struct MemoryHints(HashMap<ShardId, WaitingHints>);

#[derive(Default)]
struct WaitingHints {
    schedules: BTreeSet<OwnedSchedule>,
    all: bool,
}

impl MemoryHints {
    pub(super) fn add(&mut self, shard: ShardId, changes: &ShardChanges) {
        let waiting = self.0.entry(shard).or_default();
        waiting.schedules.extend(&changes.schedules);
        waiting.all |= changes.all;
    }

    pub(super) fn take(&mut self, shard: ShardId, limit: usize) -> ShardChanges {
        let Some(waiting) = self.0.get_mut(&shard) else { return ShardChanges::default() };
        let all = std::mem::take(&mut waiting.all);
        let first = || waiting.schedules.pop_first();
        let schedules = std::iter::from_fn(first).take(limit.saturating_sub(all.into()));
        ShardChanges { schedules: schedules.collect(), all }
    }
}
