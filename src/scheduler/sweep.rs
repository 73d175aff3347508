//! The sweep: every replica's net under what was lost, whoever leads.

use std::collections::HashMap;
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
/// How long after its end a claim should have been closed. One that is found so late could not be
/// renewed or ended, since its rows were locked or the store away: whoever holds it is given as
/// much time again, so that what has been sent is not sent twice.
const OVERDUE: Duration = Duration::from_secs(4);
/// The most jobs of a kind handled at once.
const BATCH: u32 = 1_000;

/// Pushes tickets of late jobs again and closes claims that nobody renews (JOB-3).
pub struct Sweeper {
    context: Context,
    retry: RetryPolicy,
    random: Random,
    /// Claims that ended [`OVERDUE`] ago or longer, and when they were found so, on the monotonic
    /// clock.
    overdue: HashMap<(JobId, u8), Duration>,
    /// Set until the claims of an earlier process on this store have been closed.
    alone: bool,
}

impl Sweeper {
    /// A sweep. If this process is `alone` with its store, whoever holds a claim when it first
    /// sweeps is gone, and its claims are closed without waiting for their end; the sweep must
    /// then have run once before an executor starts.
    pub fn new(context: Context, retry: RetryPolicy, random: Random, alone: bool) -> Self {
        Self { context, retry, random, overdue: HashMap::new(), alone }
    }

    async fn push_late(&self, now: Timestamp) -> Result<(), RunError> {
        let tickets = self.context.store.late(now.minus(LATE), BATCH).await?;
        if !tickets.is_empty() {
            SWEEP_TICKETS.add(tickets.len() as u64);
            self.context.queue.push(&tickets).await?;
        }
        Ok(())
    }

    /// Whether an ended claim is to be closed now.
    fn is_lost(&self, claim: &ExpiredClaim, now: Timestamp) -> bool {
        let Context { clock, .. } = &self.context;
        let found = self.overdue.get(&(claim.job, claim.attempt));
        found.is_some_and(|found| clock.monotonic().saturating_sub(*found) >= OVERDUE)
            || self.alone
            || now <= clock.after(claim.until, OVERDUE)
    }

    async fn close_expired(&mut self, now: Timestamp, before: Timestamp) -> Result<bool, RunError> {
        let found = self.context.store.expired(before, BATCH).await?;
        let is_full = found.len() == BATCH as usize;
        let (expired, waiting): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|claim| self.is_lost(claim, now));
        let monotonic = self.context.clock.monotonic();
        let since = |claim: &ExpiredClaim| {
            let key = (claim.job, claim.attempt);
            (key, self.overdue.get(&key).copied().unwrap_or(monotonic))
        };
        self.overdue = waiting.iter().map(since).collect();
        if expired.is_empty() {
            return Ok(false);
        }
        let ends: Vec<_> = expired.iter().map(|claim| self.close(claim, now)).collect();
        let committed = self.context.store.commit(now, &ends).await?;
        let ended = expired.iter().zip(&committed.fates);
        let busy = ended.filter(|(_, fate)| **fate == Fate::Busy);
        self.overdue.extend(busy.map(|(claim, _)| ((claim.job, claim.attempt), monotonic)));
        let closed = committed.fates.iter().filter(|fate| matches!(fate, Fate::Applied(_))).count();
        if closed == 0 {
            return Ok(false);
        }
        let failed = Fate::Applied(JobStatus::Failed);
        let failed = committed.fates.iter().filter(|fate| **fate == failed).count();
        WORKERS_LOST.add(closed as u64);
        JOBS_FINISHED.with(FinalStatus::Failed).add(failed as u64);
        tracing::warn!(closed, failed, "closed attempts whose executor was lost");
        self.context.queue.push(&committed.tickets).await?;
        Ok(is_full)
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
        let more = self.close_expired(now, before).await?;
        self.alone &= more;
        self.push_late(now).await?;
        Ok(if more { Pause::None } else { Pause::For(EVERY) })
    }
}
