//! The sweep: every replica's net under what was lost, whoever leads.
//!
//! It goes through all late jobs in pages, the oldest first, and begins again at the end: 4,000 jobs
//! a second, so that one of a hundred thousand late ones is found within half a minute.

use std::time::Duration;

use async_trait::async_trait;

use super::Context;
use crate::domain::job::JobStatus;
use crate::domain::outcome::{ErrorCode, Failure};
use crate::domain::retry::RetryPolicy;
use crate::domain::{JobId, Timestamp};
use crate::runtime::faults::Defect;
use crate::runtime::{Pause, Random, RunError, Worker};
use crate::store::{Completion, End, ExpiredClaim, Fate};
use crate::telemetry::metrics::{FinalStatus, JOBS_FINISHED, SWEEP_TICKETS, WORKERS_LOST};

/// How often it sweeps.
const EVERY: Duration = Duration::from_secs(2);
/// How late a job must be before it is taken for lost.
const LATE: Duration = Duration::from_secs(2);
/// The rest between pages, so that other work never waits long for the store and the queue.
const BETWEEN: Duration = Duration::from_millis(250);
/// The most jobs of a kind handled at once.
const BATCH: u32 = 1_000;

/// Pushes tickets of late jobs again and closes claims that nobody renews (JOB-3).
pub struct Sweeper {
    context: Context,
    retry: RetryPolicy,
    random: Random,
    /// Set until the claims of an earlier process on this store have been closed.
    alone: bool,
    /// The last late job of the page before; absent: the next page is the first.
    swept_to: Option<(Timestamp, JobId)>,
}

impl Sweeper {
    /// A sweep. If this process is `alone` with its store, whoever holds a claim when it first
    /// sweeps is gone, and its claims are closed without waiting for their end; the sweep must
    /// then have run once before an executor starts.
    pub fn new(context: Context, retry: RetryPolicy, random: Random, alone: bool) -> Self {
        Self { context, retry, random, alone, swept_to: None }
    }

    /// Pushes the next page of late jobs; says whether there are more. Many of them may not be able
    /// to run, and must not hide those that are less late.
    async fn push_late(&mut self, now: Timestamp) -> Result<bool, RunError> {
        let tickets = self.context.store.late(now.minus(LATE), self.swept_to, BATCH).await?;
        if !tickets.is_empty() {
            SWEEP_TICKETS.add(tickets.len() as u64);
            self.context.queue.push(&tickets).await?;
        }
        let more = tickets.len() == BATCH as usize;
        self.swept_to = tickets.last().filter(|_| more).map(|last| (last.start, last.job));
        Ok(more)
    }

    async fn close_expired(&self, now: Timestamp, before: Timestamp) -> Result<bool, RunError> {
        let expired = self.context.store.expired(before, BATCH).await?;
        if expired.is_empty() {
            return Ok(false);
        }
        let ends: Vec<_> = expired.iter().map(|claim| self.close(claim, now)).collect();
        let committed = self.context.store.commit(now, &ends).await?;
        let closed = committed.fates.iter().filter(|fate| **fate != Fate::Lost).count();
        let failed = Fate::Applied(JobStatus::Failed);
        let failed = committed.fates.iter().filter(|fate| **fate == failed).count();
        WORKERS_LOST.add(closed as u64);
        JOBS_FINISHED.with(FinalStatus::Failed).add(failed as u64);
        tracing::warn!(closed, failed, "closed attempts whose executor was lost");
        self.context.queue.push(&committed.tickets).await?;
        Ok(expired.len() == BATCH as usize)
    }

    /// The end of an attempt whose executor was lost: tried again if one is left.
    fn close(&self, claim: &ExpiredClaim, now: Timestamp) -> Completion {
        let message = "the executor was lost while the attempt ran".to_owned();
        let failure = Failure { code: ErrorCode::WorkerLost, message, retryable: true };
        let ExpiredClaim { attempt, max_attempts, .. } = *claim;
        let wait = self.retry.next(attempt, max_attempts, self.random.unit(), None);
        Completion {
            job: claim.job,
            attempt: claim.attempt,
            executor: claim.executor,
            completed_at: now,
            exchange: None,
            end: End::failed(failure, wait.map(|wait| now.plus(wait))),
        }
    }
}

#[async_trait]
impl Worker for Sweeper {
    async fn run_once(&mut self, now: Timestamp) -> Result<Pause, RunError> {
        if !self.context.clock.is_believed() || Defect::NoSweep.is_there() {
            return Ok(Pause::For(EVERY));
        }
        let before = if self.alone { Timestamp::from_millis(i64::MAX) } else { now };
        let closed = self.close_expired(now, before).await;
        // Whatever keeps claims from being closed must not keep jobs from running.
        let more_late = self.push_late(now).await?;
        let more_expired = closed?;
        self.alone &= more_expired;
        Ok(match (more_expired, more_late) {
            (true, _) => Pause::None,
            (false, true) => Pause::For(BETWEEN),
            (false, false) => Pause::For(EVERY),
        })
    }
}
