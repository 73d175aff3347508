//! Keeping the executor's lease alive, noticing cancellations, and closing orphaned claims.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::ended::Ended;
use super::orphans::close_orphans;
use super::running::Abort;
use crate::store::Aborts;
use crate::telemetry::metrics::{Beat, Loop};

/// How often cancellations are looked for; the contract gives 5 s for an abort.
const EVERY: Duration = Duration::from_secs(2);

/// Renews the lease, whether attempts are under way or not: the next one is not to wait for that.
pub(super) struct Renewer {
    shared: Arc<Shared>,
    /// Weak, so that outcomes are awaited for as long as there can be some, and no longer.
    outcomes: mpsc::WeakSender<Ended>,
}

impl Renewer {
    pub(super) fn new(shared: Arc<Shared>, outcomes: mpsc::WeakSender<Ended>) -> Self {
        Self { shared, outcomes }
    }

    /// Runs until the stop has begun and no attempt is under way.
    pub(super) async fn run(self, stopping: CancellationToken) {
        let Shared { clock, settings, running, .. } = &*self.shared;
        let beat = Beat::start(Loop::Renewer, clock.monotonic());
        let half_fresh = settings.claim_time / 6;
        let (mut looked, mut closed) = (clock.monotonic(), clock.monotonic());
        let every = half_fresh.min(EVERY);
        loop {
            self.renew(half_fresh).await;
            if running.len() > 0 && clock.monotonic().saturating_sub(looked) >= EVERY {
                looked = clock.monotonic();
                self.abort().await;
            }
            if clock.monotonic().saturating_sub(closed) >= half_fresh {
                closed = clock.monotonic();
                self.close_orphans().await;
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

    async fn close_orphans(&self) {
        let Some(outcomes) = self.outcomes.upgrade() else { return };
        if self.shared.clock.is_believed()
            && let Err(error) = close_orphans(&self.shared, &outcomes).await
        {
            tracing::warn!(%error, "could not look for claims of attempts that are not under way");
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
