//! Keeps the due index of a led shard consistent with the store.

use std::collections::HashMap;
use std::time::Duration;

use super::SchedulerContext;
use crate::domain::{ScheduleId, Timestamp};
use crate::queue::{IndexAnswer, OwnedSchedule, ShardChanges};
use crate::runtime::RunError;
use crate::store::{DueEntry, Fence};

/// The maximum number of hints that are handled at once. It bounds the duration of a script or
/// statement.
const BATCH: usize = 500;
/// The number of next ticks that are read at once.
const PAGE: u32 = 1_000;
/// The time between comparisons of one page of a led shard's index with the store.
const COMPARE_EVERY: Duration = Duration::from_secs(10);
/// The shortest pause between two comparisons of a whole index during an outage of the queue.
const COMPARE_AGAIN: Duration = Duration::from_secs(1);

/// The time for which a schedule that cannot be fired is parked in the due index. The comparison of
/// the index with the store may bring it back earlier.
pub(super) const PARKED: Duration = Duration::from_secs(60);

/// Rebuilds the index, earliest ticks first. Returns `Foreign` if it belongs to a newer leader.
pub(super) async fn rebuild(
    context: &SchedulerContext,
    fence: Fence,
) -> Result<IndexAnswer<()>, RunError> {
    let mut entries = Vec::new();
    let mut after = None;
    loop {
        let page = context.store.next_ticks(fence.shard, after, PAGE).await?;
        after = page.last().map(|entry| entry.schedule);
        let is_last = page.len() < PAGE as usize;
        entries.extend(page.iter().map(|entry| (member(entry), entry.tick)));
        if is_last {
            break;
        }
    }
    entries.sort_unstable_by_key(|(_, tick)| *tick);
    Ok(context.queue.rebuild(fence.shard, fence.epoch, &entries).await?)
}

fn member(entry: &DueEntry) -> OwnedSchedule {
    OwnedSchedule { schedule: entry.schedule, account: entry.account }
}

/// Updates the index for schedules that users have changed. Returns `true` if any schedule may have
/// changed. Hints that cannot be applied are put back, for the next try or for the next leader.
pub(super) async fn apply_hints(
    context: &SchedulerContext,
    fence: Fence,
) -> Result<bool, RunError> {
    let mut all = false;
    loop {
        let changes = context.queue.take_hints(fence.shard, BATCH).await?;
        all |= changes.all;
        if changes.schedules.is_empty() {
            return Ok(all);
        }
        let refreshed = refresh(context, fence, &changes.schedules).await;
        if !matches!(refreshed, Ok(IndexAnswer::Own(()))) {
            // The mark `all` may have come with an earlier page of hints. It is put back too.
            context.queue.hint(fence.shard, &ShardChanges { all, ..changes.clone() }).await?;
        }
        if refreshed? == IndexAnswer::Foreign || changes.schedules.len() + usize::from(all) < BATCH
        {
            return Ok(all);
        }
    }
}

/// Sets the index entries of these schedules to the ticks in the store.
async fn refresh(
    context: &SchedulerContext,
    fence: Fence,
    changed: &[OwnedSchedule],
) -> Result<IndexAnswer<()>, RunError> {
    // Only the ticks are used, so the catch-up policies need not be read.
    let late_before = Timestamp::from_millis(i64::MIN);
    let ids: Vec<_> = changed.iter().map(|member| (fence.shard, member.schedule)).collect();
    let candidates = context.store.candidates(&ids, late_before).await?;
    let ticks: HashMap<ScheduleId, _> = candidates.iter().map(|c| (c.schedule, c.tick)).collect();
    let tick = |member: &OwnedSchedule| (*member, ticks.get(&member.schedule).copied());
    let entries: Vec<_> = changed.iter().map(tick).collect();
    Ok(context.queue.set_due(fence.shard, fence.epoch, &entries).await?)
}

/// The comparison of a shard's index with the store, page by page, in case a hint was lost.
#[derive(Default)]
pub(super) struct IndexComparison {
    /// The time of the next page.
    pub(super) at: Timestamp,
    /// The time at which the comparison of the whole index began.
    began: Timestamp,
    /// The duration of the last complete comparison without pauses.
    full_took: Duration,
    /// The last schedule of the previous page. Absent if the next page is the first one.
    after: Option<ScheduleId>,
    /// `true` if the comparison continues without pauses until all pages are compared.
    pub(super) runs_without_pause: bool,
    /// `true` if another comparison without pauses follows this one.
    rerun_requested: bool,
    /// `true` if the comparison only looks for schedules that other replicas have changed. It then
    /// skips ticks older than [`PARKED`], because their schedules are parked.
    repeats: bool,
}

impl IndexComparison {
    /// A comparison without pauses.
    pub(super) fn without_pause(now: Timestamp) -> Self {
        Self { at: now, began: now, runs_without_pause: true, ..Self::default() }
    }

    /// Compares everything without pauses, because hints of any schedule may be lost. If such a
    /// comparison is running, it completes first and then starts again. Otherwise repeated calls
    /// would keep it from completing.
    pub(super) fn request_full(&mut self, now: Timestamp) {
        if self.runs_without_pause {
            self.rerun_requested = true;
        } else {
            *self = Self::without_pause(now);
        }
    }

    /// Copies the next page of the shard's ticks from the store to the index. If a schedule fires
    /// in between, its entry is set back here, and moved on again when it is due.
    pub(super) async fn compare_next_page(
        &mut self,
        context: &SchedulerContext,
        fence: Fence,
        now: Timestamp,
    ) -> Result<(), RunError> {
        if self.after.is_none() {
            self.began = now;
        }
        let ran_without_pause = self.runs_without_pause;
        let page = context.store.next_ticks(fence.shard, self.after, PAGE).await?;
        let is_compared = |entry: &&DueEntry| !self.repeats || entry.tick > now.minus(PARKED);
        let compared = page.iter().filter(is_compared);
        let entries: Vec<_> = compared.map(|entry| (member(entry), Some(entry.tick))).collect();
        let index = context.queue.set_due(fence.shard, fence.epoch, &entries).await?;
        if index == IndexAnswer::Foreign && self.runs_without_pause && !self.repeats {
            // The new leader of the shard may have to do the comparison.
            context.queue.hint(fence.shard, &ShardChanges::all()).await?;
        }
        let more = page.len() == PAGE as usize && index == IndexAnswer::Own(());
        self.after = page.last().filter(|_| more).map(|entry| entry.schedule);
        self.runs_without_pause &= more || std::mem::take(&mut self.rerun_requested);
        self.repeats &= more;
        self.at =
            if self.runs_without_pause { now } else { context.clock.after(now, COMPARE_EVERY) };
        if ran_without_pause && !more {
            self.full_took = now.since(self.began);
        }
        Ok(())
    }

    /// Begins the next comparison of the whole index after a pause, unless one is running. While
    /// hints of other replicas do not arrive, only this finds the schedules that users change
    /// there. The pause is at least as long as the last such comparison was, so that comparing
    /// takes half of the time at most.
    pub(super) fn request_again(&mut self, context: &SchedulerContext, now: Timestamp) {
        if self.runs_without_pause {
            return;
        }
        (self.runs_without_pause, self.repeats, self.after) = (true, true, None);
        self.at = context.clock.after(now, COMPARE_AGAIN.max(self.full_took));
    }
}
