//! Keeping the executor's lease alive, and noticing cancellations.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Shared;
use super::running::Abort;
use crate::store::Aborts;
use crate::telemetry::metrics::{Beat, Loop};

/// How often cancellations are looked for; the contract gives 5 s for an abort.
const EVERY: Duration = Duration::from_secs(2);

/// Renews the lease, whether attempts are under way or not: the next one is not to wait for that.
pub(super) struct Renewer {
    shared: Arc<Shared>,
}

impl Renewer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Runs until the stop has begun and no attempt is under way.
    pub(super) async fn run(self, stopping: CancellationToken) {
        let Shared { clock, settings, running, .. } = &*self.shared;
        let beat = Beat::start(Loop::Renewer, clock.monotonic());
        let (half_fresh, mut looked) = (settings.claim_time / 6, clock.monotonic());
        let every = half_fresh.min(EVERY);
        loop {
            self.renew(half_fresh).await;
            if running.len() > 0 && clock.monotonic().saturating_sub(looked) >= EVERY {
                looked = clock.monotonic();
                self.abort().await;
            }
            beat.due(clock.monotonic() + every);
            tokio::select! {
                () = clock.sleep(every) => {}
                () = async { stopping.cancelled().await; running.idle().await } => return,
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

    /// A claim that could not be renewed runs on: its outcome takes effect unless somebody else has the
    /// job by then.
    async fn renew(&self, age: Duration) {
        let shared = &self.shared;
        // The store has its time from the clock, too: a lease by a wrong one could last for ever.
        if shared.clock.is_believed()
            && let Err(error) = shared.lease.renew(shared, age).await
        {
            tracing::warn!(%error, "could not renew the lease of this executor, trying again");
        }
    }
}
