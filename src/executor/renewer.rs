//! Keeping claims alive while attempts run, and noticing cancellations.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Shared;
use super::running::Abort;
use crate::domain::JobId;
use crate::store::{Aborts, Claim};
use crate::telemetry::metrics::{Beat, Loop};

/// How often cancellations are looked for; the contract gives 5 s for an abort.
const EVERY: Duration = Duration::from_secs(2);

/// Renews the claims of running attempts.
pub(super) struct Renewer {
    shared: Arc<Shared>,
    /// When claims were last renewed, on the monotonic clock.
    renewed: Duration,
    /// The jobs whose claims could not be renewed then, because their rows were locked.
    busy: HashSet<JobId>,
}

impl Renewer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let renewed = shared.clock.monotonic();
        Self { shared, renewed, busy: HashSet::new() }
    }

    /// Runs until the stop has begun and no attempt is under way.
    pub(super) async fn run(mut self, stopping: CancellationToken) {
        let beat = Beat::start(Loop::Renewer, self.shared.clock.monotonic());
        loop {
            beat.due(self.shared.clock.monotonic() + EVERY);
            tokio::select! {
                () = self.shared.clock.sleep(EVERY) => {}
                () = async { stopping.cancelled().await; self.shared.running.idle().await } => return,
            }
            if self.shared.running.len() > 0 {
                self.abort().await;
                self.renew().await;
            }
        }
    }

    async fn abort(&self) {
        match self.shared.store.aborts().await {
            Ok(Aborts { jobs, accounts }) => {
                self.shared.running.abort(&jobs, Abort::Cancelled);
                self.shared.running.abort_of(&accounts, Abort::Cancelled);
            }
            Err(error) => tracing::warn!(%error, "could not look for cancelled jobs"),
        }
    }

    /// Renews all claims when a third of their time is over; those whose rows are locked then, in
    /// each round until they are free. One that could not be renewed runs on: its outcome takes
    /// effect unless somebody else has the job by then.
    async fn renew(&mut self) {
        let shared = &self.shared;
        let monotonic = shared.clock.monotonic();
        let is_time = monotonic.saturating_sub(self.renewed) >= shared.settings.claim_time / 3;
        let mut jobs = shared.running.all();
        jobs.retain(|(job, _)| is_time || self.busy.contains(job));
        if jobs.is_empty() {
            return;
        }
        let now = shared.clock.now();
        let until = shared.clock.after(now, shared.settings.claim_time);
        let claim = Claim { executor: shared.id, now, until };
        match shared.store.renew(&claim, &jobs).await {
            Ok(renewed) => {
                if is_time {
                    self.renewed = monotonic;
                }
                self.busy = renewed.busy.into_iter().collect();
            }
            Err(error) => tracing::warn!(%error, "could not renew claims, trying again"),
        }
    }
}
