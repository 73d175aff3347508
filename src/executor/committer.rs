//! Group commit: outcomes that arrive while one batch is written make up the next.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};

use super::Shared;
use crate::domain::job::JobStatus;
use crate::domain::outcome::{ErrorCode, Failure};
use crate::runtime::faults::Point;
use crate::runtime::{TaskKind, Tasks};
use crate::store::{Committed, Completion, End, Fate, StoreError, StoreErrorKind};
use crate::telemetry::metrics::{
    CLAIMS_LOST, COMMIT_BATCH_SECONDS, COMMIT_BATCH_SIZE, FinalStatus, JOBS_FINISHED, RETRIES,
};

/// The most outcomes committed at once.
const BATCH: usize = 500;
/// How soon a commit follows another. An outcome that comes after a rest is committed at once; of
/// many those are gathered that come within this time, because a commit costs far more than a row
/// of it. No slot waits for a commit.
const STEP: Duration = Duration::from_millis(20);
/// How often a commit is tried that fails for a reason that time does not mend.
const HOPELESS_TRIES: u32 = 3;
const FASTEST_RETRY: Duration = Duration::from_millis(50);
const SLOWEST_RETRY: Duration = Duration::from_secs(2);

/// Commits under way at once: while the store writes one batch, the next is handed over.
const COMMITS: u32 = 2;

/// The most outcomes set aside because somebody else holds their rows; the commits that find more
/// wait until there is room.
const ASIDE: u32 = 4_096;

/// Commits outcomes until there can be none any more.
pub(super) struct Committer {
    shared: Arc<Shared>,
    waiting: mpsc::Receiver<Completion>,
    tasks: Tasks,
}

/// Commits one batch.
struct Commit(Arc<Shared>);

impl Committer {
    pub(super) fn new(
        shared: Arc<Shared>,
        waiting: mpsc::Receiver<Completion>,
        tasks: Tasks,
    ) -> Self {
        Self { shared, waiting, tasks }
    }

    /// Ends when the dispatcher and the last attempt have, and all is committed.
    pub(super) async fn run(mut self) {
        let commits = Arc::new(Semaphore::new(COMMITS as usize));
        let aside = Arc::new(Semaphore::new(ASIDE as usize));
        let mut batch = Vec::with_capacity(BATCH);
        let mut last: Option<Duration> = None;
        while let Ok(turn) = commits.clone().acquire_owned().await
            && self.waiting.recv_many(&mut batch, BATCH).await > 0
        {
            if let Some(last) = last {
                self.gather(&mut batch, last + STEP).await;
            }
            last = Some(self.shared.clock.monotonic());
            let batch = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
            let (commit, aside) = (Commit(self.shared.clone()), aside.clone());
            self.tasks.spawn(TaskKind::Committer, async move {
                let locked = commit.run(batch).await;
                let room = u32::try_from(locked.len()).unwrap_or(ASIDE);
                let _room = aside.acquire_many_owned(room).await;
                drop(turn);
                commit.insist(locked).await;
            });
        }
        // The last ones are awaited: with the committer ends what the executor is waited for.
        let _all = commits.acquire_many(COMMITS).await;
        let _aside = aside.acquire_many(ASIDE).await;
    }

    /// Adds to a batch what comes until then, unless it is full already.
    async fn gather(&mut self, batch: &mut Vec<Completion>, until: Duration) {
        let left = until.saturating_sub(self.shared.clock.monotonic());
        if !left.is_zero() && batch.len() + self.waiting.len() < BATCH {
            self.shared.clock.sleep(left).await;
        }
        while batch.len() < BATCH
            && let Ok(completion) = self.waiting.try_recv()
        {
            batch.push(completion);
        }
    }
}

impl Commit {
    /// Commits what was passed over, again and again until nobody else holds its rows any more. The
    /// claims are renewed meanwhile, as those of attempts under way: what was sent is not lost.
    async fn insist(&self, mut locked: Vec<Completion>) {
        let enter =
            |completion: &Completion| self.0.running.enter(completion.job, completion.attempt);
        let _places: Vec<_> = locked.iter().map(enter).collect();
        let mut pause = FASTEST_RETRY;
        while !locked.is_empty() {
            tracing::debug!(rows = locked.len(), "others hold the rows of outcomes, waiting");
            self.0.clock.sleep(pause).await;
            pause = (pause * 2).min(SLOWEST_RETRY);
            locked = self.run(locked).await;
        }
    }

    /// Commits a batch, splitting it as long as the store refuses a row of it. Returns what was
    /// passed over because somebody else holds its rows.
    async fn run(&self, batch: Vec<Completion>) -> Vec<Completion> {
        let (mut parts, mut locked) = (vec![batch], Vec::new());
        while let Some(mut part) = parts.pop() {
            match self.try_commit(&part).await {
                Ok(committed) => {
                    log(&part, &committed);
                    let fates = part.into_iter().zip(&committed.fates);
                    let busy = fates.filter(|(_, fate)| **fate == Fate::Busy);
                    locked.extend(busy.map(|(completion, _)| completion));
                    self.announce(committed).await;
                }
                Err(()) if part.len() > 1 => {
                    let rest = part.split_off(part.len() / 2);
                    parts.push(rest);
                    parts.push(part);
                }
                Err(()) => {
                    let Some(refused) = part.pop() else { continue };
                    if let Some(replacement) = Self::replace(refused) {
                        parts.push(vec![replacement]);
                    }
                }
            }
        }
        locked
    }

    /// Commits a part, again and again while the store is away. `Err` if a row is refused, or makes
    /// the store fail each time. Claims that end in the meantime make the commit a no-op: the sweep
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
                    shared.clock.sleep(pause).await;
                    pause = (pause * 2).min(SLOWEST_RETRY);
                }
            }
        }
    }

    /// What to commit for a job whose outcome the store refuses.
    fn replace(mut refused: Completion) -> Option<Completion> {
        let message = "the outcome of the attempt could not be stored".to_owned();
        let end = End::Failed(Failure { code: ErrorCode::Internal, message, retryable: false });
        if refused.end == end && refused.exchange.is_none() {
            tracing::error!(job = %refused.job, "store refuses even the failure of a job");
            return None;
        }
        refused.exchange = None;
        refused.end = end;
        Some(refused)
    }

    async fn announce(&self, committed: Committed) {
        let count = |wanted: Fate| committed.fates.iter().filter(|fate| **fate == wanted).count();
        let statuses =
            [(JobStatus::Success, FinalStatus::Success), (JobStatus::Failed, FinalStatus::Failed)];
        for (status, label) in statuses {
            JOBS_FINISHED.with(label).add(count(Fate::Applied(status)) as u64);
        }
        RETRIES.add(count(Fate::Applied(JobStatus::Pending)) as u64);
        CLAIMS_LOST.add(count(Fate::Lost) as u64);
        if committed.tickets.is_empty() {
            return;
        }
        Point::AfterCommit.reach();
        if let Err(error) = self.0.queue.push(&committed.tickets).await {
            tracing::warn!(%error, "tickets not queued, leaving them to the sweep");
        }
    }
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
        let error_code = match &completion.end {
            End::Succeeded => None,
            End::Failed(failure) | End::Retry(failure, _) => Some(failure.code.as_str()),
        };
        match fate {
            Fate::Applied(status) => {
                tracing::debug!(%job, attempt, %status, status_code, duration_ms, error_code, "attempt ended");
            }
            Fate::Lost => tracing::debug!(%job, attempt, "attempt ended after its claim was lost"),
            Fate::Busy => tracing::debug!(%job, attempt, "attempt ended while its job was locked"),
        }
    }
}
