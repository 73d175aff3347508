//! Renews the executor's lease, notices cancellations, and closes orphaned claims.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::attempt::finished_attempts::FinishedAttempt;
use super::attempt_registry::Abort;
use super::completion::orphans::close_orphans;
use super::lease::LeaseError;
use crate::executor::shared::ExecutorShared;
use crate::store::JobsToAbort;
use crate::telemetry::metrics::{Loop, LoopHeartbeat};

/// The time between two looks for cancellations. The contract allows 5 s for an abort.
const EVERY: Duration = Duration::from_secs(2);

/// Renews the lease even while no attempt is under way, so that the next claim need not wait for a
/// renewal. Runs until the stop has begun and no attempt is under way.
///
/// `outcomes` is weak, so that the committer ends when no attempt can hand in an outcome any more.
pub(super) async fn renew(
    shared: Arc<ExecutorShared>,
    outcomes: mpsc::WeakSender<FinishedAttempt>,
    stopping: CancellationToken,
) {
    let over = async {
        stopping.cancelled().await;
        shared.registry.idle().await;
    };
    // These run side by side: a slow answer about what to abort must not let the lease, and with it
    // all claims, end.
    let renewing = async {
        tokio::join!(keep_lease(&shared), keep_aborting(&shared), keep_closing(&shared, &outcomes));
    };
    tokio::select! {
        () = over => {}
        () = renewing => {}
    }
}

/// Renews the lease before a claim would have to wait for that. If the lease ends, the attempts
/// run on: their outcomes take effect unless their claims have been closed by then.
async fn keep_lease(shared: &ExecutorShared) {
    let ExecutorShared { clock, settings, lease, .. } = shared;
    let beat = LoopHeartbeat::start(Loop::Renewer, clock.monotonic());
    let half_fresh = settings.claim_time / 6;
    loop {
        match lease.renew(half_fresh).await {
            // The keeper of the time has logged that.
            Ok(()) | Err(LeaseError::UnknownTime) => {}
            Err(LeaseError::Store(error)) => {
                tracing::warn!(%error, "could not renew the lease of this executor, trying again");
            }
        }
        let pause = half_fresh.min(EVERY);
        beat.due(clock.monotonic() + pause);
        clock.sleep(pause).await;
    }
}

async fn keep_aborting(shared: &ExecutorShared) {
    let ExecutorShared { clock, registry, store, .. } = shared;
    loop {
        clock.sleep(EVERY).await;
        if registry.len() == 0 {
            continue;
        }
        match store.aborts().await {
            Ok(JobsToAbort { jobs, accounts }) => {
                registry.abort(&jobs, Abort::Cancelled);
                registry.abort_of(&accounts, Abort::Cancelled);
            }
            Err(error) => tracing::warn!(%error, "could not look for cancelled jobs"),
        }
    }
}

async fn keep_closing(shared: &ExecutorShared, outcomes: &mpsc::WeakSender<FinishedAttempt>) {
    let ExecutorShared { clock, settings, .. } = shared;
    loop {
        clock.sleep(settings.claim_time / 6).await;
        let Some(outcomes) = outcomes.upgrade().filter(|_| clock.is_trusted()) else {
            continue;
        };
        if let Err(error) = close_orphans(shared, &outcomes).await {
            tracing::warn!(%error, "could not look for orphaned claims");
        }
    }
}
