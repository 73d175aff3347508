//! The sweep: every replica's net under what was lost, whoever leads.
//!
//! It goes through all late jobs in pages, the oldest first, and begins again at the end: 4,000 jobs
//! a second, so that one of a hundred thousand late ones is found within half a minute. While there
//! are more than a page, the oldest of each account come first: one account's many keep nobody's few
//! waiting.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;

use super::Context;
use crate::domain::outcome::{ErrorCode, Failure};
use crate::domain::retry::RetryPolicy;
use crate::domain::{JobId, Timestamp};
use crate::runtime::faults::Defect;
use crate::runtime::{Pause, Random, RunError, Worker};
use crate::store::{Completion, End, ExpiredClaim, Fate, Locked};
use crate::telemetry::metrics::{SWEEP_TICKETS, WORKERS_LOST};

/// How often it sweeps.
const EVERY: Duration = Duration::from_secs(2);
/// How late a job must be before it is taken for lost.
const LATE: Duration = Duration::from_secs(2);
/// The rest between pages, so that other work never waits long for the store and the queue.
const BETWEEN: Duration = Duration::from_millis(250);
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
    /// The round through the late jobs that is under way.
    sweeping: Option<Sweeping>,
    /// When the oldest late jobs of each account were pushed last, on the monotonic clock.
    each_at: Option<Duration>,
}

/// A round through the late jobs: those that become late meanwhile are of the next one, so that it
/// comes to its end.
#[derive(Clone, Copy)]
struct Sweeping {
    /// The jobs that could have started before.
    before: Timestamp,
    /// The last one of the page before.
    after: (Timestamp, JobId),
}

impl Sweeper {
    /// A sweep. If this process is `alone` with its store, whoever holds a claim when it first
    /// sweeps is gone, and its claims are closed without waiting for their end; the sweep must
    /// then have run once before an executor starts.
    pub fn new(context: Context, retry: RetryPolicy, random: Random, alone: bool) -> Self {
        let (overdue, sweeping, each_at) = (HashMap::new(), None, None);
        Self { context, retry, random, overdue, alone, sweeping, each_at }
    }

    /// Pushes the next page of late jobs; says whether there may be more. Many of them may not be
    /// able to run, and must not hide those that are less late.
    async fn push_late(&mut self, now: Timestamp) -> Result<bool, RunError> {
        loop {
            let before = self.sweeping.map_or(now.minus(LATE), |sweeping| sweeping.before);
            let after = self.sweeping.map(|sweeping| sweeping.after);
            let tickets = self.context.store.late(before, after, BATCH).await?;
            let Some(last) = tickets.last() else {
                self.sweeping = None;
                return Ok(false);
            };
            SWEEP_TICKETS.add(tickets.len() as u64);
            self.context.queue.push(&tickets).await?;
            self.sweeping = Some(Sweeping { before, after: (last.start, last.job) });
            // A page that is not full is the last one or has gaps, of which there are few.
            if tickets.len() == BATCH as usize {
                self.push_late_of_each(now.minus(LATE)).await?;
                return Ok(true);
            }
        }
    }

    /// Pushes the oldest late jobs of each account, at most once in [`EVERY`].
    async fn push_late_of_each(&mut self, before: Timestamp) -> Result<(), RunError> {
        let monotonic = self.context.clock.monotonic();
        if self.each_at.is_some_and(|at| monotonic < at + EVERY) {
            return Ok(());
        }
        self.each_at = Some(monotonic);
        let mut after = None;
        loop {
            let (tickets, next) = self.context.store.late_of_each(before, after).await?;
            SWEEP_TICKETS.add(tickets.len() as u64);
            self.context.queue.push(&tickets).await?;
            if next.is_none() {
                return Ok(());
            }
            after = next;
        }
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
        let committed = self.context.store.commit(now, &ends, Locked::Awaited).await?;
        committed.trace(&ends);
        let ended = expired.iter().zip(&committed.fates);
        let busy = ended.filter(|(_, fate)| **fate == Fate::Busy);
        self.overdue.extend(busy.map(|(claim, _)| ((claim.job, claim.attempt), monotonic)));
        let closed = committed.fates.iter().filter(|fate| matches!(fate, Fate::Applied(_))).count();
        if closed == 0 {
            return Ok(false);
        }
        WORKERS_LOST.add(closed as u64);
        committed.count();
        let failed = committed.failed.len();
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
            run: None,
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
