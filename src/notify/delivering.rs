//! One try of a delivery.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::NotifierShared;
use super::message::alert;
use super::ongoing_tries::OngoingTry;
use crate::channels::{Destination, SendError, SentMessage};
use crate::domain::Timestamp;
use crate::domain::alert::delivery::{DeliveryError, MAX_RETRY_AFTER};
use crate::runtime::ClockMoment;
use crate::runtime::faults::FaultPoint;
use crate::store::{ClaimedDelivery, TryEnd, TryOutcome};
use crate::telemetry::metrics::{DELIVERY_LAG_SECONDS, DELIVERY_TRIES, TryResult};

/// A claimed delivery. It counts as a try under way through `ongoing`.
pub(super) struct DeliveryTask {
    pub(super) shared: Arc<NotifierShared>,
    pub(super) claimed: ClaimedDelivery,
    /// The moment before the claim was requested.
    pub(super) asked: ClockMoment,
    pub(super) ongoing: OngoingTry,
}

/// The result of a try that is not recorded yet. The try still counts as under way.
pub(super) struct FinishedTry {
    pub(super) end: TryEnd,
    pub(super) ongoing: OngoingTry,
}

impl DeliveryTask {
    /// Sends the alert and passes the result to the recorder.
    pub(super) async fn run(self, ends: mpsc::Sender<FinishedTry>) {
        let started_at = self.shared.clock.now();
        let sent = self.send().await;
        FaultPoint::AfterAlert.reach();
        let end = self.end(started_at, sent);
        // The recorder outlives the tries. If it is gone nevertheless, the claim expires.
        let _ = ends.send(FinishedTry { end, ongoing: self.ongoing }).await;
    }

    async fn send(&self) -> Result<SentMessage, SendError> {
        let Self { shared, claimed, .. } = self;
        let age = shared.clock.since(self.asked);
        if age + shared.settings.timeout > shared.settings.claim_time {
            let message = "the notifier was too slow to send the alert within its claim";
            return Err(unsent(DeliveryError::NotifierLost, message));
        }
        let Some(config) = claimed.config.clone() else {
            let message = "the configuration of the channel cannot be decrypted: save it again";
            return Err(unsent(DeliveryError::ConfigUnreadable, message));
        };
        let Some(alert) = alert(claimed, shared.public_url.as_deref()) else {
            let message = "the job of this alert is not kept any more";
            return Err(unsent(DeliveryError::JobPruned, message));
        };
        let to = Destination {
            account: claimed.account,
            channel: claimed.channel,
            kind: claimed.channel_type,
            config,
        };
        shared.channels.send(&to, &alert, shared.settings.timeout).await
    }

    fn end(&self, started_at: Timestamp, sent: Result<SentMessage, SendError>) -> TryEnd {
        let Self { shared, claimed, .. } = self;
        let completed_at = shared.clock.now();
        let (status_code, response, outcome) = match sent {
            Ok(SentMessage { status, response, .. }) => {
                let lag = completed_at.since(claimed.at);
                DELIVERY_LAG_SECONDS.record_span(lag);
                (status, response, TryOutcome::Delivered)
            }
            Err(error) => {
                let outcome = self.failed(&error, completed_at);
                (error.status, error.response, outcome)
            }
        };
        DELIVERY_TRIES.with((claimed.channel_type, result(&outcome))).add(1);
        TryEnd {
            delivery: claimed.id,
            account: claimed.account,
            channel: claimed.channel,
            revision: claimed.revision,
            attempt: claimed.attempt,
            notifier: shared.id,
            started_at,
            completed_at,
            status_code,
            response,
            outcome,
        }
    }

    fn failed(&self, error: &SendError, now: Timestamp) -> TryOutcome {
        let Self { shared, claimed, .. } = self;
        let is_final = error.gone
            || matches!(error.code, DeliveryError::ConfigUnreadable | DeliveryError::JobPruned);
        let next = || {
            let jitter = shared.random.unit();
            let tries = &shared.settings.tries;
            let asked = error.retry_after;
            tries.next(claimed.attempt_of_round, claimed.round_began, now, jitter, asked)
        };
        let asked = error.retry_after.filter(|_| error.code == DeliveryError::RateLimited);
        TryOutcome::Failed {
            code: error.code,
            message: error.message.clone(),
            retry_at: if is_final { None } else { next() },
            paused_until: asked.map(|asked| now.plus(asked.min(MAX_RETRY_AFTER))),
            gone: error.gone,
        }
    }
}

/// Maps an outcome to the label of the metric.
fn result(outcome: &TryOutcome) -> TryResult {
    match outcome {
        TryOutcome::Delivered => TryResult::Delivered,
        TryOutcome::Failed { retry_at: Some(_), .. } => TryResult::Retried,
        TryOutcome::Failed { .. } => TryResult::Failed,
    }
}

fn unsent(code: DeliveryError, message: &str) -> SendError {
    SendError {
        code,
        message: message.to_owned(),
        status: None,
        response: None,
        retry_after: None,
        gone: false,
    }
}
