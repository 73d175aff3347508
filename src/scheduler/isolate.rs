//! Fires a batch, and isolates schedules that cannot be fired, so that the others fire.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use super::fire::fire_batch;
use super::index::PARKED;
use super::pending::DueTick;
use super::shard_leadership::LeaderParts;
use crate::domain::Timestamp;
use crate::runtime::RunError;
use crate::store::{Fence, StoreError};
use crate::telemetry::metrics::FIRINGS_PARKED;

/// The maximum number of statements of a batch that time out: enough to find one schedule in 500,
/// and few enough that a slow store does not have to try them all one by one.
const MAX_TIMEOUTS: u32 = 12;

/// The result of firing a batch.
pub(super) struct FiredBatch {
    /// The ticks of the batch.
    pub(super) due: Vec<DueTick>,
    /// The fences that the store rejected, or the reason why the whole batch is to be tried again
    /// later.
    pub(super) outcome: Result<Vec<Fence>, RunError>,
    /// `true` if a statement of the batch took too long. The next batch should be smaller, even if
    /// the parts of this one were fired.
    pub(super) is_slow: bool,
}

/// Fires a batch, and splits it while it fails for a reason that may lie in the batch. A single
/// schedule whose statement times out is parked only if the store has fired others. Otherwise the
/// store may be slow, and the whole batch is tried again soon.
pub(super) async fn fire(
    parts: LeaderParts<'_>,
    fences: Vec<Fence>,
    now: Timestamp,
    due: Vec<DueTick>,
) -> FiredBatch {
    let (mut lost, mut slow) = (Vec::new(), Vec::new());
    let (mut timeouts, mut has_fired) = (0, false);
    let mut batches = vec![&due[..]];
    while let Some(batch) = batches.pop() {
        let fired = fire_batch(parts.context, parts.rules, &fences, now, batch);
        let fired = AssertUnwindSafe(fired).catch_unwind().await;
        let error = match fired.unwrap_or_else(|_| Err(Panicked.into())) {
            Ok(fenced) => {
                has_fired = true;
                lost.extend(fences.iter().filter(|fence| fenced.contains(&fence.shard)));
                continue;
            }
            Err(error) => error,
        };
        let is_slow = error.downcast_ref().is_some_and(StoreError::may_be_slow);
        timeouts += u32::from(is_slow);
        if timeouts > MAX_TIMEOUTS || !is_slow && !lies_in_batch(&error) {
            return FiredBatch { due, outcome: Err(error), is_slow: timeouts > 0 };
        }
        match batch {
            [one] if is_slow => slow.push((*one, error)),
            [one] => park(parts, &fences, now, *one, &error).await,
            _ => {
                let (first, rest) = batch.split_at(batch.len() / 2);
                batches.extend([rest, first]);
            }
        }
    }
    for (one, error) in slow {
        if !has_fired {
            return FiredBatch { due, outcome: Err(error), is_slow: true };
        }
        park(parts, &fences, now, one, &error).await;
    }
    FiredBatch { due, outcome: Ok(lost), is_slow: timeouts > 0 }
}

/// The error of a batch whose firing panicked.
#[derive(Debug, thiserror::Error)]
#[error("firing panicked")]
struct Panicked;

/// Returns `true` if the cause may lie in the batch, so that another batch could be fired.
fn lies_in_batch(error: &RunError) -> bool {
    error.is::<Panicked>() || error.downcast_ref().is_some_and(StoreError::lies_in_call)
}

/// Parks a schedule that cannot be fired.
async fn park(
    parts: LeaderParts<'_>,
    fences: &[Fence],
    now: Timestamp,
    DueTick { shard, member, tick }: DueTick,
    error: &RunError,
) {
    let schedule = member.schedule;
    tracing::error!(%schedule, %tick, %error, "a schedule cannot be fired, trying again later");
    FIRINGS_PARKED.add(1);
    let Some(fence) = fences.iter().find(|fence| fence.shard == shard) else { return };
    let entry = [(member, Some(parts.context.clock.after(now, PARKED)))];
    // If this fails, the schedule is due again at once, and is parked then.
    if let Err(error) = parts.context.queue.set_due(shard, fence.epoch, &entry).await {
        tracing::debug!(%schedule, %error, "the schedule could not be parked");
    }
}
