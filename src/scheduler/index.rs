//! Keeping a led shard's due index as the store says.

use std::collections::HashMap;

use super::Context;
use crate::domain::ScheduleId;
use crate::queue::Index;
use crate::runtime::RunError;
use crate::store::Fence;

/// The most schedules handled at once; bounds how long a script or statement takes.
pub(super) const BATCH: usize = 500;
/// How many next ticks are read at once.
const PAGE: u32 = 1_000;

/// Builds the index anew, earliest ticks first. `Foreign` if a newer leader has.
pub(super) async fn rebuild(context: &Context, fence: Fence) -> Result<Index<()>, RunError> {
    let mut entries = Vec::new();
    let mut after = None;
    loop {
        let page = context.store.next_ticks(fence.shard, after, PAGE).await?;
        after = page.last().map(|entry| entry.schedule);
        let is_last = page.len() < PAGE as usize;
        entries.extend(page.into_iter().map(|entry| (entry.schedule, entry.tick)));
        if is_last {
            break;
        }
    }
    entries.sort_unstable_by_key(|(_, tick)| *tick);
    Ok(context.queue.rebuild(fence.shard, fence.epoch, &entries).await?)
}

/// Brings schedules that users have changed into the index.
pub(super) async fn apply_hints(context: &Context, fence: Fence) -> Result<(), RunError> {
    loop {
        let hinted = context.queue.take_hints(fence.shard, BATCH).await?;
        if hinted.is_empty() {
            return Ok(());
        }
        refresh(context, fence, &hinted).await?;
        if hinted.len() < BATCH {
            return Ok(());
        }
    }
}

/// Sets the index to what the store says of these schedules. A foreign index is rebuilt when it is
/// next read.
pub(super) async fn refresh(
    context: &Context,
    fence: Fence,
    ids: &[ScheduleId],
) -> Result<(), RunError> {
    let candidates = context.store.candidates(fence.shard, ids).await?;
    let ticks: HashMap<_, _> = candidates.iter().map(|c| (c.schedule, c.tick)).collect();
    let entries: Vec<_> = ids.iter().map(|id| (*id, ticks.get(id).copied())).collect();
    context.queue.set_due(fence.shard, fence.epoch, &entries).await?;
    Ok(())
}

/// Brings the next page of the shard's ticks into the index, in case a hint was lost. Returns
/// where to go on; absent: from the start. A tick that is fired in between is set back here and
/// moved on again when it comes up.
pub(super) async fn compare_page(
    context: &Context,
    fence: Fence,
    after: Option<ScheduleId>,
) -> Result<Option<ScheduleId>, RunError> {
    let page = context.store.next_ticks(fence.shard, after, PAGE).await?;
    let entries: Vec<_> = page.iter().map(|entry| (entry.schedule, Some(entry.tick))).collect();
    let index = context.queue.set_due(fence.shard, fence.epoch, &entries).await?;
    let more = page.len() == PAGE as usize && index == Index::Own(());
    Ok(page.last().filter(|_| more).map(|entry| entry.schedule))
}
