//! Commits one batch of outcomes.

use std::sync::Arc;
use std::time::Duration;

use tracing::field::display;

use crate::domain::outcome::{ErrorCode, Failure};
use crate::executor::attempt::finished_attempts::{FinishedAttempt, FinishedBatch};
use crate::executor::shared::ExecutorShared;
use crate::runtime::faults::FaultPoint;
use crate::store::{
    AttemptEnd, Committed, Completion, CompletionResult, StoreError, StoreErrorKind,
};
use crate::telemetry::metrics::{CLAIMS_LOST, COMMIT_BATCH_SECONDS, COMMIT_BATCH_SIZE};
use crate::telemetry::traces::trace_id;

/// A commit that has met this many errors that waiting does not cure is refused at its next error.
const MAX_PERMANENT_FAILURES: u32 = 3;
/// The number of tries of a single completion that may take the store too long, before it is
/// deferred.
const SLOW_TRIES: u32 = 2;
/// The first pause before a commit is retried.
const FASTEST_RETRY: Duration = Duration::from_millis(50);
/// The longest pause between two tries. Each pause is twice as long as the one before.
const SLOWEST_RETRY: Duration = Duration::from_secs(2);

/// The reason why a part of a batch is not retried as it is.
enum SplitReason {
    /// The store refuses a row of it, or a row makes the store fail each time.
    Refused,
    /// A row of it may take the store too long.
    Slow,
}

/// Commits batches.
#[derive(Clone)]
pub(in crate::executor) struct Commit(pub(in crate::executor) Arc<ExecutorShared>);

impl Commit {
    /// Commits a batch. Splits it when the store refuses one of its rows or takes too long over it.
    /// Returns the completions to defer: another transaction holds their rows, or each alone takes
    /// the store too long.
    pub(in crate::executor) async fn run(&self, batch: FinishedBatch) -> Vec<FinishedAttempt> {
        let (mut parts, mut deferred) = (vec![batch], Vec::new());
        let mut pause = FASTEST_RETRY;
        while let Some(mut part) = parts.pop() {
            match self.try_commit(&part.completions, &mut pause).await {
                Ok(committed) => {
                    log(&part.completions, &committed);
                    committed.trace(&part.completions);
                    let results = part.into_ended().zip(&committed.results);
                    let left = results.filter(|(_, result)| **result == CompletionResult::Busy);
                    deferred.extend(left.map(|(ended, _)| ended));
                    self.announce(committed).await;
                }
                Err(_) if part.len() > 1 => {
                    let rest = part.split();
                    parts.push(rest);
                    parts.push(part);
                }
                Err(SplitReason::Slow) => deferred.extend(part.into_ended()),
                Err(SplitReason::Refused) => {
                    let replaced = part.into_ended().filter_map(replace);
                    parts.extend(replaced.map(|ended| FinishedBatch::from_iter([ended])));
                }
            }
        }
        deferred
    }

    /// Commits a part, and retries while the store is unreachable. If its claims end meanwhile, the
    /// commit changes nothing: the job rescuer has closed their attempts. `pause` grows until the
    /// store answers, whichever part is tried.
    async fn try_commit(
        &self,
        part: &[Completion],
        pause: &mut Duration,
    ) -> Result<Committed, SplitReason> {
        let shared = &self.0;
        let (mut permanent, mut slow) = (0, 0);
        loop {
            let began = shared.clock.monotonic();
            match shared.store.commit(shared.clock.now(), part).await {
                Ok(committed) => {
                    let took = shared.clock.monotonic().saturating_sub(began);
                    shared.commits.adapt(true);
                    *pause = FASTEST_RETRY;
                    COMMIT_BATCH_SECONDS.record_span(took);
                    COMMIT_BATCH_SIZE.record_count(part.len());
                    return Ok(committed);
                }
                Err(error)
                    if error.kind() == StoreErrorKind::Rejected
                        || permanent == MAX_PERMANENT_FAILURES =>
                {
                    tracing::warn!(%error, rows = part.len(), "the store refuses outcomes");
                    return Err(SplitReason::Refused);
                }
                Err(error) => {
                    permanent += u32::from(is_permanent(&error));
                    slow += u32::from(error.may_be_slow());
                    tracing::warn!(%error, rows = part.len(), "commit failed, trying again");
                    shared.commits.adapt(false);
                    shared.clock.sleep(*pause).await;
                    *pause = (*pause * 2).min(SLOWEST_RETRY);
                    if slow == SLOW_TRIES || slow > 0 && part.len() > 1 {
                        return Err(SplitReason::Slow);
                    }
                }
            }
        }
    }

    async fn announce(&self, committed: Committed) {
        committed.count();
        let lost =
            committed.results.iter().filter(|result| **result == CompletionResult::Lost).count();
        CLAIMS_LOST.add(lost as u64);
        if committed.events > 0 {
            self.0.alerts.notify_one();
        }
        if committed.tickets.is_empty() {
            return;
        }
        FaultPoint::AfterCommit.reach();
        self.0.push(&committed.tickets).await;
    }
}

/// Returns the completion to commit instead of one that the store refuses: the job fails. `None` if
/// the store refuses that as well.
fn replace(
    FinishedAttempt { completion: mut refused, guard }: FinishedAttempt,
) -> Option<FinishedAttempt> {
    let message = "the outcome of the attempt could not be stored".to_owned();
    let end = AttemptEnd::Failed(Failure { code: ErrorCode::Internal, message, retryable: false });
    if refused.end == end && refused.exchange.is_none() {
        tracing::error!(
            job = %refused.job,
            "outcome dropped, the store refuses to fail the job as well"
        );
        return None;
    }
    refused.exchange = None;
    refused.end = end;
    Some(FinishedAttempt { completion: refused, guard })
}

/// Returns `true` if a row may be the cause of the error, and not the state of the store.
fn is_permanent(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Corrupt | StoreErrorKind::Internal)
}

fn log(part: &[Completion], committed: &Committed) {
    for (completion, result) in part.iter().zip(&committed.results) {
        let (job, attempt) = (&completion.job, completion.attempt);
        let exchange = completion.exchange.as_ref();
        let duration_ms = exchange.map(|exchange| exchange.duration_ms);
        let answered = exchange.and_then(|exchange| exchange.result.as_ref().ok());
        let status_code = answered.map(|response| response.status);
        let error_code = completion.end.error().map(ErrorCode::as_str);
        let trace_id = trace_id(*job).map(display);
        match result {
            CompletionResult::Applied(status) => {
                tracing::debug!(%job, attempt, %status, status_code, duration_ms, error_code, trace_id, "attempt ended");
            }
            CompletionResult::Lost => {
                tracing::debug!(%job, attempt, trace_id, "attempt ended after its claim was lost");
            }
            CompletionResult::Busy => {
                tracing::debug!(%job, attempt, trace_id, "attempt ended while its job was locked");
            }
        }
    }
}
