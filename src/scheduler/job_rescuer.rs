//! The job rescuer finds lost jobs and lost claims. Every replica with the role `scheduler` or
//! `executor` runs it, leader or not.
//!
//! It reads all late jobs in pages, the oldest first, and starts again at the end. It reads 4,000
//! jobs per second, so one of 100,000 late jobs is found within half a minute. While more than one
//! page is late, it also pushes the oldest late jobs of each account, so that an account with many
//! late jobs does not delay one with few.

use std::time::Duration;

use async_trait::async_trait;

use super::SchedulerContext;
use super::batch_limits::adapt;
use super::ended_leases::EndedLeases;
use crate::domain::outcome::{ErrorCode, Failure};
use crate::domain::retry::RetryPolicy;
use crate::domain::{JobId, Timestamp};
use crate::runtime::{BatchSize, LoopPause, Random, RunError, Worker};
use crate::store::{
    AttemptEnd, Committed, Completion, CompletionResult, RecordedAttempt, StoreError,
};
use crate::telemetry::metrics::{RESCUED_TICKETS, WORKERS_LOST};

/// The time between two passes of the job rescuer.
const EVERY: Duration = Duration::from_secs(2);
/// A job that is later than this may have lost its ticket, which is then pushed again.
const LATE: Duration = Duration::from_secs(2);
/// The pause between pages, so that other work never waits long for the store and the queue.
const BETWEEN: Duration = Duration::from_millis(250);
/// The maximum number of commits that time out in one pass. Each takes seconds, in which late jobs
/// wait. The next pass continues with smaller batches.
const MAX_TIMEOUTS: u32 = 3;
/// The maximum number of rows of one kind that are handled at once.
const BATCH: u32 = 1_000;

/// Pushes the tickets of late jobs again and closes the claims of lost executors (JOB-3).
pub struct JobRescuer {
    context: SchedulerContext,
    retry: RetryPolicy,
    random: Random,
    ended: EndedLeases,
    /// `true` until the claims of an earlier process on this store have been closed.
    alone: bool,
    /// The current pass over the late jobs.
    pass: Option<RescuePass>,
    /// The time of the last push of each account's oldest late jobs, on the monotonic clock.
    each_at: Option<Duration>,
    /// The number of late jobs read at once. This batch, and the two below, become smaller when they
    /// time out.
    late: BatchSize,
    /// The number of claims of ended leases read at once.
    expired: BatchSize,
    /// The number of lost claims closed at once.
    closing: BatchSize,
    /// The jobs whose claims time out even when closed alone. The last one was tried most recently.
    slow: Vec<JobId>,
}

/// One pass over the late jobs. Jobs that become late meanwhile belong to the next pass, so that
/// this one ends.
#[derive(Clone, Copy)]
struct RescuePass {
    /// Only jobs that could have started before this time belong to the pass.
    before: Timestamp,
    /// The last job of the previous page.
    after: (Timestamp, JobId),
}

impl JobRescuer {
    /// A job rescuer. If this process is `alone` with its store, all claims that exist before its
    /// first pass belong to dead processes, and are closed before their leases end. Then it must
    /// run once before an executor starts.
    pub fn new(context: SchedulerContext, retry: RetryPolicy, random: Random, alone: bool) -> Self {
        let (ended, pass, each_at) = (EndedLeases::default(), None, None);
        let [late, expired, closing] = [(); 3].map(|()| BatchSize::new(BATCH as usize));
        let slow = Vec::new();
        Self { context, retry, random, ended, alone, pass, each_at, late, expired, closing, slow }
    }

    /// Pushes the tickets of the next page of late jobs. Returns `true` if there may be more.
    /// Paging matters because many late jobs may not be able to run, and must not hide those that
    /// are less late.
    async fn push_late(&mut self, now: Timestamp) -> Result<bool, RunError> {
        loop {
            let before = self.pass.map_or(now.minus(LATE), |pass| pass.before);
            let after = self.pass.map(|pass| pass.after);
            let limit = self.late.rows();
            let found = self.context.store.late(before, after, limit).await;
            adapt(&self.late, &found);
            let tickets = found?;
            let Some(last) = tickets.last() else {
                self.pass = None;
                return Ok(false);
            };
            RESCUED_TICKETS.add(tickets.len() as u64);
            self.context.queue.push(&tickets).await?;
            self.pass = Some(RescuePass { before, after: (last.start, last.job) });
            // A page that is not full is the last one or has gaps. Gaps are rare.
            if tickets.len() == limit as usize {
                self.push_late_of_each(now.minus(LATE)).await?;
                return Ok(true);
            }
        }
    }

    /// Pushes the oldest late jobs of each account, at most once per [`EVERY`].
    async fn push_late_of_each(&mut self, before: Timestamp) -> Result<(), RunError> {
        let monotonic = self.context.clock.monotonic();
        if self.each_at.is_some_and(|at| monotonic < at + EVERY) {
            return Ok(());
        }
        self.each_at = Some(monotonic);
        let mut after = None;
        loop {
            let (tickets, next) = self.context.store.late_of_each(before, after).await?;
            RESCUED_TICKETS.add(tickets.len() as u64);
            self.context.queue.push(&tickets).await?;
            if next.is_none() {
                return Ok(());
            }
            after = next;
        }
    }

    async fn close_expired(&mut self, now: Timestamp, before: Timestamp) -> Result<bool, RunError> {
        let limit = self.expired.rows();
        let found = self.context.store.expired(before, limit).await;
        adapt(&self.expired, &found);
        let found = found?;
        let is_full = found.len() == limit as usize;
        self.ended.note(&found, !is_full, now, &self.context.clock);
        let may_close = |claim: &RecordedAttempt| {
            self.alone || self.ended.may_close(claim.executor, &self.context.clock)
        };
        let expired: Vec<_> = found.into_iter().filter(may_close).collect();
        if expired.is_empty() {
            return Ok(false);
        }
        let ends = expired.iter().map(|claim| self.close(claim, now)).collect();
        let closed = self.commit(now, ends).await?;
        Ok(closed > 0 && is_full)
    }

    /// Returns the batches in which to close attempts, the last one to be closed first. Attempts
    /// that timed out before are closed at the end, alone, starting with the one that was tried
    /// longest ago.
    fn batches(&self, ends: Vec<Completion>) -> Vec<Vec<Completion>> {
        let position = |end: &Completion| self.slow.iter().position(|job| *job == end.job);
        let (mut slow, others): (Vec<_>, Vec<_>) =
            ends.into_iter().partition(|end| position(end).is_some());
        slow.sort_by_key(|end| std::cmp::Reverse(position(end)));
        let others = others.chunks(self.closing.get()).rev().map(<[_]>::to_vec);
        slow.into_iter().map(|end| vec![end]).chain(others).collect()
    }

    /// Closes attempts, and splits a batch while it fails for a reason that may lie in it, so that
    /// one row that cannot be stored does not keep the others open. Returns the number of closed
    /// attempts.
    async fn commit(&mut self, now: Timestamp, ends: Vec<Completion>) -> Result<usize, RunError> {
        self.slow.retain(|job| ends.iter().any(|end| end.job == *job));
        let (mut parts, mut closed, mut timeouts) = (self.batches(ends), 0, 0);
        while let Some(mut part) = parts.pop() {
            match self.context.store.commit(now, &part).await {
                Ok(committed) => {
                    self.closing.adapt(true);
                    closed += self.report_closed(&part, &committed).await?;
                }
                Err(error) if error.may_be_slow() => {
                    self.closing.adapt(false);
                    timeouts += 1;
                    if let [slow] = &part[..] {
                        self.note_slow(slow.job, &error);
                    } else {
                        let rest = part.split_off(part.len() / 2);
                        parts.extend([rest, part]);
                    }
                    if timeouts == MAX_TIMEOUTS {
                        return Err(error.into());
                    }
                }
                Err(error) if !error.lies_in_call() => {
                    self.closing.adapt(false);
                    return Err(error.into());
                }
                Err(_) if part.len() > 1 => {
                    let rest = part.split_off(part.len() / 2);
                    parts.extend([rest, part]);
                }
                Err(error) => {
                    let Some(mut end) = part.pop() else { continue };
                    let (job, attempt) = (end.job, end.attempt);
                    tracing::error!(%job, attempt, %error, "a lost attempt cannot be closed");
                    let is_told = end.end == unstorable();
                    end.end = unstorable();
                    // If even the failure cannot be stored, the claim stays, and the next pass
                    // tries again.
                    parts.extend((!is_told).then(|| vec![end]));
                }
            }
        }
        Ok(closed)
    }

    /// Reports what a batch has closed, and pushes the tickets of the retries. Returns the number
    /// of closed attempts.
    async fn report_closed(
        &self,
        part: &[Completion],
        committed: &Committed,
    ) -> Result<usize, RunError> {
        let results = committed.results.iter();
        let closed =
            results.filter(|result| matches!(result, CompletionResult::Applied(_))).count();
        committed.trace(part);
        committed.count();
        WORKERS_LOST.add(closed as u64);
        if closed > 0 {
            tracing::warn!(closed, "closed attempts whose executor was lost");
        }
        self.context.queue.push(&committed.tickets).await?;
        Ok(closed)
    }

    /// Marks a job whose claim timed out when closed alone. From now on all others are closed
    /// first.
    fn note_slow(&mut self, job: JobId, error: &StoreError) {
        let known = self.slow.len();
        self.slow.retain(|slow| *slow != job);
        if self.slow.len() == known {
            tracing::error!(%job, %error, "closing a lost attempt takes too long, others come first");
        }
        self.slow.push(job);
    }

    /// Returns the end of an attempt whose executor was lost: a retry if one is left.
    fn close(&self, claim: &RecordedAttempt, now: Timestamp) -> Completion {
        let message = "the executor was lost while the attempt ran".to_owned();
        let failure = Failure { code: ErrorCode::WorkerLost, message, retryable: true };
        let RecordedAttempt { attempt, max_attempts, .. } = *claim;
        let wait = self.retry.next(attempt, max_attempts, self.random.unit(), None);
        Completion {
            job: claim.job,
            attempt: claim.attempt,
            executor: claim.executor,
            run: None,
            completed_at: now,
            exchange: None,
            end: AttemptEnd::failed(failure, wait.map(|wait| now.plus(wait))),
        }
    }
}

/// The end of a lost attempt if the store rejects its real end.
fn unstorable() -> AttemptEnd {
    let message = "the end of the attempt could not be stored".to_owned();
    AttemptEnd::Failed(Failure { code: ErrorCode::Internal, message, retryable: false })
}

#[async_trait]
impl Worker for JobRescuer {
    async fn run_once(&mut self, now: Timestamp) -> Result<LoopPause, RunError> {
        if !self.context.clock.is_trusted() {
            return Ok(LoopPause::For(EVERY));
        }
        let before = if self.alone { Timestamp::from_millis(i64::MAX) } else { now };
        let closed = self.close_expired(now, before).await;
        // A failure to close claims must not keep jobs from running.
        let more_late = self.push_late(now).await?;
        let more_expired = closed?;
        self.alone &= more_expired;
        Ok(match (more_expired, more_late) {
            (true, _) => LoopPause::None,
            (false, true) => LoopPause::For(BETWEEN),
            (false, false) => LoopPause::For(EVERY),
        })
    }
}
