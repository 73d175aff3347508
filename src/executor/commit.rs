//! The commit of one batch of outcomes.

use std::sync::Arc;
use std::time::Duration;

use tracing::field::display;

use super::Shared;
use super::ended::{Batch, Ended};
use crate::domain::outcome::{ErrorCode, Failure};
use crate::runtime::faults::Point;
use crate::store::{Committed, Completion, End, Fate, StoreError, StoreErrorKind};
use crate::telemetry::metrics::{CLAIMS_LOST, COMMIT_BATCH_SECONDS, COMMIT_BATCH_SIZE};
use crate::telemetry::traces::trace_id;

/// How often a commit is tried that fails for a reason that time does not mend.
const HOPELESS_TRIES: u32 = 3;
/// How soon what could not be committed is tried again.
const FASTEST_RETRY: Duration = Duration::from_millis(50);
/// The longest pause between two tries, of which each is twice as long as the one before.
const SLOWEST_RETRY: Duration = Duration::from_secs(2);

/// Commits batches.
#[derive(Clone)]
pub(super) struct Commit(pub(super) Arc<Shared>);

impl Commit {
    /// Commits a batch, splitting it as long as the store refuses a row of it. Returns the
    /// completions whose rows another transaction holds.
    pub(super) async fn run(&self, batch: Batch) -> Vec<Ended> {
        let (mut parts, mut busy) = (vec![batch], Vec::new());
        while let Some(mut part) = parts.pop() {
            match self.try_commit(part.completions()).await {
                Ok(committed) => {
                    log(part.completions(), &committed);
                    committed.trace(part.completions());
                    let fates = part.into_ended().zip(&committed.fates);
                    let left = fates.filter(|(_, fate)| **fate == Fate::Busy);
                    busy.extend(left.map(|(ended, _)| ended));
                    self.announce(committed).await;
                }
                Err(()) if part.len() > 1 => {
                    let rest = part.split();
                    parts.push(rest);
                    parts.push(part);
                }
                Err(()) => {
                    let replaced = part.into_ended().filter_map(replace);
                    parts.extend(replaced.map(|ended| Batch::from_iter([ended])));
                }
            }
        }
        busy
    }

    /// Commits a part, again and again while the store is away. `Err` if it is to be split: a row is
    /// refused, or makes the store fail each time, or it may be that all of them take too long. Claims that end in the meantime make the commit a no-op: the sweep
    /// has closed their attempts.
    async fn try_commit(&self, part: &[Completion]) -> Result<Committed, ()> {
        let shared = &self.0;
        let mut pause = FASTEST_RETRY;
        let mut hopeless = 0;
        loop {
            let began = shared.clock.monotonic();
            match shared.store.commit(shared.clock.now(), part).await {
                Ok(committed) => {
                    let took = shared.clock.monotonic().saturating_sub(began);
                    shared.commits.follow(true);
                    COMMIT_BATCH_SECONDS.record_span(took);
                    COMMIT_BATCH_SIZE.record_count(part.len());
                    return Ok(committed);
                }
                Err(error)
                    if error.kind() == StoreErrorKind::Rejected || hopeless == HOPELESS_TRIES =>
                {
                    tracing::warn!(%error, rows = part.len(), "store refused outcomes");
                    return Err(());
                }
                Err(error) => {
                    hopeless += u32::from(is_hopeless(&error));
                    tracing::warn!(%error, rows = part.len(), "commit failed, trying again");
                    shared.commits.follow(false);
                    shared.clock.sleep(pause).await;
                    if part.len() > shared.commits.get() {
                        return Err(());
                    }
                    pause = (pause * 2).min(SLOWEST_RETRY);
                }
            }
        }
    }

    async fn announce(&self, committed: Committed) {
        committed.count();
        let lost = committed.fates.iter().filter(|fate| **fate == Fate::Lost).count();
        CLAIMS_LOST.add(lost as u64);
        if committed.events > 0 {
            self.0.alerts.notify_one();
        }
        if committed.tickets.is_empty() {
            return;
        }
        Point::AfterCommit.reach();
        self.0.push(&committed.tickets).await;
    }
}

/// What to commit for a job whose outcome the store refuses.
fn replace(Ended { completion: mut refused, place }: Ended) -> Option<Ended> {
    let message = "the outcome of the attempt could not be stored".to_owned();
    let end = End::Failed(Failure { code: ErrorCode::Internal, message, retryable: false });
    if refused.end == end && refused.exchange.is_none() {
        tracing::error!(job = %refused.job, "store refuses even the failure of a job");
        return None;
    }
    refused.exchange = None;
    refused.end = end;
    Some(Ended { completion: refused, place })
}

/// Whether a row may be the cause, and not the state that the store is in.
fn is_hopeless(error: &StoreError) -> bool {
    matches!(error.kind(), StoreErrorKind::Corrupt | StoreErrorKind::Internal)
}

fn log(part: &[Completion], committed: &Committed) {
    for (completion, fate) in part.iter().zip(&committed.fates) {
        let (job, attempt) = (&completion.job, completion.attempt);
        let exchange = completion.exchange.as_ref();
        let duration_ms = exchange.map(|exchange| exchange.duration_ms);
        let answered = exchange.and_then(|exchange| exchange.result.as_ref().ok());
        let status_code = answered.map(|response| response.status);
        let error_code = completion.end.error().map(ErrorCode::as_str);
        let trace_id = trace_id(*job).map(display);
        match fate {
            Fate::Applied(status) => {
                tracing::debug!(%job, attempt, %status, status_code, duration_ms, error_code, trace_id, "attempt ended");
            }
            Fate::Lost => {
                tracing::debug!(%job, attempt, trace_id, "attempt ended after its claim was lost");
            }
            Fate::Busy => {
                tracing::debug!(%job, attempt, trace_id, "attempt ended while its job was locked");
            }
        }
    }
}
