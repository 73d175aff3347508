//! Starting claimed jobs: each has its slot already.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::Shared;
use super::attempt::Attempt;
use super::ended::Ended;
use super::slots::Slot;
use crate::domain::JobId;
use crate::domain::job::Trigger;
use crate::runtime::{TaskKind, Tasks};
use crate::store::{Claim, Claimed, Claims, Completion, End, Result, StoreErrorKind, Unreadable};
use crate::telemetry::metrics::START_LAG_SECONDS;

/// Jobs that are to be claimed and started, and what their attempts need.
pub(super) struct Start {
    pub(super) shared: Arc<Shared>,
    pub(super) outcomes: mpsc::Sender<Ended>,
    pub(super) tasks: Tasks,
    pub(super) slots: HashMap<JobId, Slot>,
}

impl Start {
    /// A claim that begins now, and the instant on the monotonic clock. As late as can be: a claim
    /// must not be half over when it is made.
    pub(super) fn claim(&self) -> (Claim, Duration) {
        let Shared { id, clock, settings, .. } = &*self.shared;
        let (now, asked) = (clock.now(), clock.monotonic());
        let until = clock.after(now, settings.claim_time);
        (Claim { executor: *id, now, until }, asked)
    }

    /// Claims jobs; again, if the answer was lost.
    pub(super) async fn claim_for_sure(&self, claim: &Claim, jobs: &[JobId]) -> Result<Claims> {
        let store = &self.shared.store;
        match store.claim(claim, jobs).await {
            Err(error) if error.kind() == StoreErrorKind::Unavailable => {
                store.claim(claim, jobs).await
            }
            claims => claims,
        }
    }

    /// Starts what was claimed. What runs already does not run twice: a claim that is repeated
    /// brings it again.
    pub(super) async fn begin(mut self, claims: Claims, asked: Duration) {
        let shared = &self.shared;
        let Claims { taken, unreadable } = claims;
        for claimed in taken {
            let Some(slot) = self.slots.remove(&claimed.job) else { continue };
            let entered = shared.running.enter(claimed.job, claimed.attempt);
            let Some((place, aborted)) = entered else { continue };
            self.observe_lag(&claimed);
            let attempt = Attempt { shared: shared.clone(), claimed, asked, slot, place, aborted };
            // Boxed, so that a large future is not moved from wrapper to wrapper.
            self.tasks.spawn(TaskKind::Attempt, Box::pin(attempt.run(self.outcomes.clone())));
        }
        for damaged in unreadable {
            if let Some(ended) = fail(damaged, shared) {
                // If the committer is gone, the sweep takes over.
                let _ = self.outcomes.send(ended).await;
            }
        }
    }

    /// Late ticks and further attempts say nothing about how prompt the service is.
    fn observe_lag(&self, claimed: &Claimed) {
        if claimed.attempt == 1 && claimed.trigger != Trigger::CatchUp {
            START_LAG_SECONDS.record_span(self.shared.clock.now().since(claimed.job.timestamp()));
        }
    }
}

/// The end of an attempt that cannot be sent. No other would be different.
fn fail(damaged: Unreadable, shared: &Shared) -> Option<Ended> {
    let Unreadable { job, attempt, failure } = damaged;
    let (place, _) = shared.running.enter(job, attempt)?;
    let completion = Completion {
        job,
        attempt,
        executor: shared.id,
        completed_at: shared.clock.now(),
        exchange: None,
        end: End::Failed(failure),
    };
    Some(Ended { completion, place })
}
