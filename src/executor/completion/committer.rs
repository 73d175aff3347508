//! Group commit: outcomes that arrive while one batch is written form the next batch.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};

use super::commit::Commit;
use super::deferred::{MAX_DEFERRED, retry_deferred};
use crate::executor::attempt::finished_attempts::FinishedAttempt;
use crate::executor::settings::BATCH;
use crate::executor::shared::ExecutorShared;
use crate::runtime::{TaskKind, Tasks};
use crate::telemetry::metrics::{Loop, LoopHeartbeat};

/// The minimum time between two commits. An outcome that comes after a pause is committed at once.
/// Under load, outcomes are gathered for this time, because a commit costs far more than one of its
/// rows. No slot waits for a commit.
const MIN_COMMIT_INTERVAL: Duration = Duration::from_millis(20);
/// The maximum number of commits under way: while the store writes one batch, the next is handed
/// over.
const COMMITS: u32 = 2;

/// Commits outcomes until no more can come: until the dispatcher, the last claim or firing and the
/// last attempt have ended and all outcomes are committed.
pub(in crate::executor) async fn commit_outcomes(
    shared: Arc<ExecutorShared>,
    mut waiting: mpsc::Receiver<FinishedAttempt>,
    tasks: Tasks,
) {
    let commits = Arc::new(Semaphore::new(COMMITS as usize));
    let commit = Commit(shared.clone());
    let (deferred, incoming) = mpsc::channel(MAX_DEFERRED);
    let retrying = tasks.spawn(TaskKind::Committer, retry_deferred(commit.clone(), incoming));
    let mut batch = Vec::with_capacity(BATCH);
    let mut last: Option<Duration> = None;
    let beat = LoopHeartbeat::start(Loop::Committer, shared.clock.monotonic());
    while let Ok(turn) = commits.clone().acquire_owned().await {
        // Without outcomes the loop has nothing to do and cannot be late.
        beat.due(Duration::MAX);
        if waiting.recv_many(&mut batch, shared.commits.get()).await == 0 {
            break;
        }
        beat.due(shared.clock.monotonic());
        if let Some(last) = last {
            gather(&shared, &mut waiting, &mut batch, last + MIN_COMMIT_INTERVAL).await;
        }
        last = Some(shared.clock.monotonic());
        let batch = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
        let (commit, deferred) = (commit.clone(), deferred.clone());
        tasks.spawn(TaskKind::Committer, async move {
            let later = commit.run(batch.into_iter().collect()).await;
            if let Some(first) = later.first() {
                let (rows, job) = (later.len(), first.completion.job);
                tracing::warn!(rows, %job, "completions deferred: rows locked or commit too slow");
            }
            for ended in later {
                // If the task is gone, the job rescuer closes the attempt.
                let _ = deferred.send(ended).await;
            }
            drop(turn);
        });
    }
    // Waits for the last commits: when the committer has ended, all outcomes are committed.
    let _all = commits.acquire_many(COMMITS).await;
    drop(deferred);
    let _retried = retrying.await;
}

/// Adds the outcomes that come before `until` to a batch, unless it is full already.
async fn gather(
    shared: &ExecutorShared,
    waiting: &mut mpsc::Receiver<FinishedAttempt>,
    batch: &mut Vec<FinishedAttempt>,
    until: Duration,
) {
    let most = shared.commits.get();
    let left = until.saturating_sub(shared.clock.monotonic());
    if !left.is_zero() && batch.len() + waiting.len() < most {
        shared.clock.sleep(left).await;
    }
    while batch.len() < most
        && let Ok(ended) = waiting.try_recv()
    {
        batch.push(ended);
    }
}
