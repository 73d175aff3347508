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
use crate::store::{Claim, Claimed, Claims, Completion, End, Unreadable};
use crate::telemetry::metrics::START_LAG_SECONDS;

/// How long it is waited each time before what a lost answer has brought is asked for. The last time is
/// before half of a claim's time is over, after which nothing of it is sent.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(6),
];

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

    /// Starts what was claimed. What runs already does not run twice: a claim that is repeated
    /// brings it again.
    pub(super) async fn begin(&mut self, claims: Claims, asked: Duration) {
        let shared = &self.shared;
        let Claims { taken, unreadable } = claims;
        for claimed in taken {
            let Some(slot) = self.slots.remove(&claimed.job) else { continue };
            let entered = shared.running.enter(claimed.job, claimed.attempt, Some(claimed.account));
            let Some((place, aborted)) = entered else { continue };
            self.observe_lag(&claimed);
            let attempt = Attempt { shared: shared.clone(), claimed, asked, slot, place, aborted };
            // Boxed, so that a large future is not moved from wrapper to wrapper.
            self.tasks.spawn(TaskKind::Attempt, Box::pin(attempt.run(self.outcomes.clone())));
        }
        for damaged in unreadable {
            self.slots.remove(&damaged.job);
            if let Some(ended) = fail(damaged, shared) {
                // If the committer is gone, the sweep takes over.
                let _ = self.outcomes.send(ended).await;
            }
        }
    }

    /// Asks again for what a claim has brought whose answer was lost, beside everything else, and
    /// starts it: otherwise each job would have lost an attempt. The statement may still be running
    /// at the server, so what does not come is asked for some more times.
    pub(super) fn ask_again(mut self, claim: Claim, asked: Duration) {
        let tasks = self.tasks.clone();
        tasks.spawn(TaskKind::Claim, async move {
            let coming = self.shared.running.announce();
            for pause in PAUSES {
                tokio::select! {
                    () = self.shared.clock.sleep(pause) => {}
                    () = self.tasks.stopping().cancelled() => break,
                }
                let jobs: Vec<JobId> = self.slots.keys().copied().collect();
                match self.shared.store.claim(&claim, &jobs).await {
                    Ok(claims) => self.begin(claims, asked).await,
                    Err(error) => tracing::warn!(%error, "what was claimed is not known yet"),
                }
                if self.slots.is_empty() {
                    break;
                }
            }
            drop(coming);
        });
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
    let (place, _) = shared.running.enter(job, attempt, None)?;
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
