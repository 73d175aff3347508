//! Starts claimed jobs. Each of them has its slot already.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::domain::JobId;
use crate::domain::ticket::Ticket;
use crate::executor::attempt::ClaimedAttempt;
use crate::executor::attempt::finished_attempts::FinishedAttempt;
use crate::executor::capacity::slots::Slot;
use crate::executor::shared::ExecutorShared;
use crate::runtime::faults::FaultPoint;
use crate::runtime::{ClockMoment, TaskKind, Tasks};
use crate::store::{
    AttemptEnd, ClaimRequest, ClaimedJob, ClaimedJobs, LATEST_EFFECT, StoreError, StoreErrorKind,
    UnreadableJob,
};
use crate::telemetry::metrics::{START_LAG_SECONDS, TICKETS_CLAIMED};
use crate::telemetry::traces::trace_id;

/// The first pause before the claims of a lost answer are asked for. Each pause is twice as long as
/// the one before, up to `MAX_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Jobs to claim and start, and what their attempts need.
pub(in crate::executor) struct AttemptStarter {
    pub(in crate::executor) shared: Arc<ExecutorShared>,
    pub(in crate::executor) outcomes: mpsc::Sender<FinishedAttempt>,
    pub(in crate::executor) tasks: Tasks,
    pub(in crate::executor) slots: HashMap<JobId, Slot>,
    /// The moment at which the executor's lease was known to be young enough. It is not later than
    /// the claim's request: the time to send counts from it.
    pub(in crate::executor) leased: ClockMoment,
}

impl AttemptStarter {
    /// Claims the tickets' jobs and starts those that were claimed.
    pub(in crate::executor) async fn claim_and_begin(
        mut self,
        tickets: &[Ticket],
    ) -> Result<(), StoreError> {
        let jobs: Vec<JobId> = tickets.iter().map(|ticket| ticket.job).collect();
        let claim = self.claim();
        FaultPoint::AfterTake.reach();
        match self.shared.store.claim(&claim, &jobs).await {
            Ok(claims) => {
                self.shared.claims.adapt(true);
                FaultPoint::AfterClaim.reach();
                TICKETS_CLAIMED.add((claims.taken.len() + claims.unreadable.len()) as u64);
                self.begin(claims).await;
                Ok(())
            }
            Err(error) => {
                self.shared.claims.adapt(false);
                self.recall(claim, &error);
                Err(error)
            }
        }
    }

    /// Makes a claim that begins now.
    pub(in crate::executor) fn claim(&self) -> ClaimRequest {
        ClaimRequest { executor: self.shared.id, now: self.shared.clock.now() }
    }

    /// Starts the claimed jobs. An attempt that is under way is not started again, because
    /// recalling a claim may return it a second time.
    pub(in crate::executor) async fn begin(&mut self, claims: ClaimedJobs) {
        let shared = &self.shared;
        let ClaimedJobs { taken, unreadable } = claims;
        for claimed in taken {
            let Some(slot) = self.slots.remove(&claimed.job) else { continue };
            let registered =
                shared.registry.register(claimed.job, claimed.attempt, Some(claimed.account));
            let Some((guard, aborted)) = registered else { continue };
            self.observe_lag(&claimed);
            let (job, attempt, trace_id) = (claimed.job, claimed.attempt, trace_id(claimed.job));
            tracing::debug!(%job, attempt, trace_id = trace_id.map(display), "attempt begins");
            let attempt = ClaimedAttempt {
                shared: shared.clone(),
                claimed,
                asked: self.leased,
                slot,
                guard,
                aborted,
            };
            // Boxed, so that a large future is not moved from wrapper to wrapper.
            self.tasks.spawn(TaskKind::Attempt, Box::pin(attempt.run(self.outcomes.clone())));
        }
        for UnreadableJob { job, attempt, failure } in unreadable {
            self.slots.remove(&job);
            // A further attempt would fail in the same way.
            let ended =
                FinishedAttempt::unsent(shared, (job, attempt), |_| AttemptEnd::Failed(failure));
            if let Some(ended) = ended {
                // If the committer is gone, the job rescuer finds the job.
                let _ = self.outcomes.send(ended).await;
            }
        }
    }

    /// Recalls the claims of a call whose answer was lost, in a task of its own, and starts their
    /// jobs. Without this, each of the jobs would lose an attempt. The statement may still be
    /// running at the server, so the task asks until an answer is certain to be complete
    /// ([`LATEST_EFFECT`] after the failure) or it is too late to send. A stop does not wait for
    /// that: the task asks once more and ends.
    pub(in crate::executor) fn recall(mut self, claim: ClaimRequest, error: &StoreError) {
        self.shared.lease.invalidate(error);
        if error.kind() != StoreErrorKind::Unavailable || error.is_void() {
            return;
        }
        // Announced before the caller, which a stop waits for, returns.
        let coming = self.shared.registry.announce();
        let failed = self.shared.clock.monotonic();
        self.tasks.clone().spawn(TaskKind::Claim, async move {
            let settled = failed + LATEST_EFFECT;
            let mut pause = FIRST_PAUSE;
            while !self.slots.is_empty() {
                let is_stopping = tokio::select! {
                    () = self.shared.clock.sleep(pause) => false,
                    () = self.tasks.stopping().cancelled() => true,
                };
                let now = self.shared.clock.monotonic();
                if !self.shared.is_sendable(self.leased) {
                    break;
                }
                let jobs: Vec<JobId> = self.slots.keys().copied().collect();
                match self.shared.store.recall(&claim, &jobs).await {
                    Ok(claims) => {
                        self.begin(claims).await;
                        if now >= settled {
                            break;
                        }
                    }
                    Err(error) => tracing::warn!(%error, "could not recall an unanswered claim"),
                }
                if is_stopping {
                    break;
                }
                pause = (pause * 2).min(MAX_PAUSE);
            }
            drop(coming);
        });
    }

    /// Records the start lag. It leaves out retries and jobs that had to wait for another job of
    /// their schedule, because these say nothing about how prompt the service is. Caught-up ticks
    /// count, because the service has delayed them.
    fn observe_lag(&self, claimed: &ClaimedJob) {
        if claimed.attempt == 1 && !claimed.was_held {
            START_LAG_SECONDS.record_span(self.shared.clock.now().since(claimed.job.timestamp()));
        }
    }
}
