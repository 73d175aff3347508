//! Records the results of delivery tries, in batches.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::NotifierShared;
use super::delivering::FinishedTry;
use crate::store::{TryEnd, TryOutcome};

/// The maximum number of results in one batch.
const BATCH: usize = 256;
/// The time for which a batch collects results before it is written.
const GATHER: Duration = Duration::from_millis(10);
/// The pause before the first retry of a failed write.
const FASTEST_RETRY: Duration = Duration::from_millis(50);
/// The longest pause between two retries. Each pause is twice as long as the one before.
const SLOWEST_RETRY: Duration = Duration::from_secs(2);

/// Records the results of tries until all senders are gone.
pub(super) struct Recorder {
    shared: Arc<NotifierShared>,
    waiting: mpsc::Receiver<FinishedTry>,
}

impl Recorder {
    pub(super) fn new(shared: Arc<NotifierShared>, waiting: mpsc::Receiver<FinishedTry>) -> Self {
        Self { shared, waiting }
    }

    /// Runs until the loop and the last try have ended and all results are recorded.
    pub(super) async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.waiting.recv_many(&mut batch, BATCH).await > 0 {
            self.shared.clock.sleep(GATHER).await;
            while batch.len() < BATCH
                && let Ok(end) = self.waiting.try_recv()
            {
                batch.push(end);
            }
            let (ends, tries): (Vec<_>, Vec<_>) =
                batch.drain(..).map(|FinishedTry { end, ongoing }| (end, ongoing)).unzip();
            self.record(ends).await;
            drop(tries);
            self.shared.hint.notify_one();
        }
    }

    /// Records a batch and retries until all of its claims have expired. A notifier that claims
    /// these deliveries afterwards sends the alerts once more.
    async fn record(&self, ends: Vec<TryEnd>) {
        let NotifierShared { store, clock, settings, .. } = &*self.shared;
        let began = clock.monotonic();
        let mut pause = FASTEST_RETRY;
        loop {
            match store.complete_tries(clock.now(), &ends).await {
                Ok(applied) => return log(&ends, &applied),
                Err(error) if clock.monotonic().saturating_sub(began) > settings.claim_time => {
                    tracing::error!(%error, tries = ends.len(), "results of delivery tries were not recorded: these alerts are sent again");
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, tries = ends.len(), "results of delivery tries not recorded, trying again");
                    clock.sleep(pause).await;
                    pause = (pause * 2).min(SLOWEST_RETRY);
                }
            }
        }
    }
}

fn log(ends: &[TryEnd], applied: &[bool]) {
    for (end, applied) in ends.iter().zip(applied) {
        let (delivery, attempt, channel) = (&end.delivery, end.attempt, &end.channel);
        match &end.outcome {
            _ if !applied => {
                tracing::debug!(%delivery, attempt, "delivery try ended after its claim was lost");
            }
            TryOutcome::Delivered => {
                tracing::debug!(%delivery, attempt, %channel, "alert delivered");
            }
            TryOutcome::Failed { code, retry_at: Some(at), .. } => {
                tracing::info!(%delivery, attempt, %channel, %code, retry_at = %at, "alert not delivered, trying again");
            }
            TryOutcome::Failed { code, gone, .. } => {
                tracing::warn!(%delivery, attempt, %channel, %code, gone, "alert not delivered");
            }
        }
    }
}
