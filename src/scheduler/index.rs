//! Keeping a led shard's due index as the store says.

use std::collections::HashMap;
use std::time::Duration;

use super::Context;
use crate::domain::{ScheduleId, Timestamp};
use crate::queue::{Changes, Index, Member};
use crate::runtime::RunError;
use crate::store::{DueEntry, Fence};

/// The most hints handled at once; bounds how long a script or statement takes.
const BATCH: usize = 500;
/// How many next ticks are read at once.
const PAGE: u32 = 1_000;
/// How often a page of each led shard's index is compared with the store.
const COMPARE_EVERY: Duration = Duration::from_secs(10);

/// Builds the index anew, earliest ticks first. `Foreign` if a newer leader has.
pub(super) async fn rebuild(context: &Context, fence: Fence) -> Result<Index<()>, RunError> {
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

fn member(entry: &DueEntry) -> Member {
    Member { schedule: entry.schedule, account: entry.account }
}

/// Brings schedules that users have changed into the index; says whether any may have been changed.
/// Hints that come to nothing are given back: whoever leads the shard then takes them again.
pub(super) async fn apply_hints(context: &Context, fence: Fence) -> Result<bool, RunError> {
    let mut all = false;
    loop {
        let changes = context.queue.take_hints(fence.shard, BATCH).await?;
        all |= changes.all;
        if changes.schedules.is_empty() {
            return Ok(all);
        }
        let refreshed = refresh(context, fence, &changes.schedules).await;
        if !matches!(refreshed, Ok(Index::Own(()))) {
            // With the mark, should it have come with an earlier page.
            context.queue.hint(fence.shard, &Changes { all, ..changes.clone() }).await?;
        }
        if refreshed? == Index::Foreign || changes.schedules.len() + usize::from(all) < BATCH {
            return Ok(all);
        }
    }
}

/// Sets the index to what the store says of these schedules.
async fn refresh(
    context: &Context,
    fence: Fence,
    changed: &[Member],
) -> Result<Index<()>, RunError> {
    // Only the ticks matter: none counts as late.
    let late_before = Timestamp::from_millis(i64::MIN);
    let ids: Vec<_> = changed.iter().map(|member| (fence.shard, member.schedule)).collect();
    let candidates = context.store.candidates(&ids, late_before).await?;
    let ticks: HashMap<ScheduleId, _> = candidates.iter().map(|c| (c.schedule, c.tick)).collect();
    let tick = |member: &Member| (*member, ticks.get(&member.schedule).copied());
    let entries: Vec<_> = changed.iter().map(tick).collect();
    Ok(context.queue.set_due(fence.shard, fence.epoch, &entries).await?)
}

/// The comparison of a shard's index with the store, page after page, in case a hint was lost.
pub(super) struct Comparison {
    /// When the next page is due.
    at: Timestamp,
    /// After which schedule it begins; absent: at the start.
    after: Option<ScheduleId>,
    /// Whether it goes on without a pause until it is through.
    is_urgent: bool,
    /// Whether it is then to be gone through once more.
    again: bool,
}

impl Comparison {
    /// One that makes no pause.
    pub(super) fn urgent(now: Timestamp) -> Self {
        Self { at: now, after: None, is_urgent: true, again: false }
    }

    /// Makes no pause from now on, and goes through all: hints may have been lost, of any schedule.
    /// If it makes none already, it comes to its end first: or it never would, if it was urged again
    /// and again.
    pub(super) fn urge(&mut self, now: Timestamp) {
        if self.is_urgent {
            self.again = true;
        } else {
            *self = Self::urgent(now);
        }
    }

    /// Whether it goes on at once.
    pub(super) fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.at <= now
    }

    /// Brings the next page of the shard's ticks into the index. A tick that is fired in between is
    /// set back here and moved on again when it comes up.
    pub(super) async fn go_on(
        &mut self,
        context: &Context,
        fence: Fence,
        now: Timestamp,
    ) -> Result<(), RunError> {
        let page = context.store.next_ticks(fence.shard, self.after, PAGE).await?;
        let entries: Vec<_> = page.iter().map(|entry| (member(entry), Some(entry.tick))).collect();
        let index = context.queue.set_due(fence.shard, fence.epoch, &entries).await?;
        if index == Index::Foreign && self.is_urgent {
            // Somebody may have to do it who leads the shard by now.
            context.queue.hint(fence.shard, &Changes::all()).await?;
        }
        let more = page.len() == PAGE as usize && index == Index::Own(());
        self.after = page.last().filter(|_| more).map(|entry| entry.schedule);
        self.is_urgent &= more || std::mem::take(&mut self.again);
        self.at = if self.is_urgent { now } else { now.plus(COMPARE_EVERY) };
        Ok(())
    }
}
