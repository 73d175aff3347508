//! Orphaned claims: attempts that the store records as running under this executor, although it
//! does not run them.
//!
//! An attempt that panics leaves such a claim behind, and so does a claim whose answer was lost and
//! could not be recalled in time. The executor's lease keeps its claims alive, so no other replica
//! closes them. Without this check their jobs would stay RUNNING for ever (JOB-3).
//!
//! The registry of attempts under way decides, not the time. An orphan enters the registry before
//! it is closed, and an attempt that finds itself there already is never sent.

use tokio::sync::mpsc;

use crate::domain::Timestamp;
use crate::executor::attempt::finished_attempts::FinishedAttempt;
use crate::executor::attempt::lost;
use crate::executor::shared::ExecutorShared;
use crate::store::{AttemptEnd, RecordedAttempt, StoreError};
use crate::telemetry::metrics::WORKERS_LOST;

/// Hands in the ends of orphaned claims. Their jobs are retried if an attempt is left.
pub(in crate::executor) async fn close_orphans(
    shared: &ExecutorShared,
    outcomes: &mpsc::Sender<FinishedAttempt>,
) -> Result<(), StoreError> {
    let ExecutorShared { id, clock, settings, store, random, .. } = shared;
    // A younger claim may come from a call that has not been answered yet.
    let before = clock.now().minus(settings.claim_time / 2);
    for claim in store.claims_of(*id, before).await? {
        let RecordedAttempt { job, attempt, max_attempts, .. } = claim;
        let end = |now: Timestamp| {
            let wait = settings.retry.next(attempt, max_attempts, random.unit(), None);
            AttemptEnd::failed(lost(), wait.map(|wait| now.plus(wait)))
        };
        let Some(ended) = FinishedAttempt::unsent(shared, (job, attempt), end) else { continue };
        // Does not wait for capacity in the channel: a later look closes the claims that find none.
        if outcomes.try_send(ended).is_err() {
            break;
        }
        tracing::warn!(%job, attempt, "closing an attempt that is claimed but not under way");
        WORKERS_LOST.add(1);
    }
    Ok(())
}
