//! One attempt, from its claim to its outcome.

pub(super) mod finished_attempts;
mod request;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::capacity::slots::Slot;
use crate::domain::Timestamp;
use crate::domain::outcome::{ErrorCode, Exchange, Failure, Outcome, Timings};
use crate::domain::retry::parse_retry_after;
use crate::executor::attempt_registry::{Abort, AttemptGuard};
use crate::executor::shared::ExecutorShared;
use crate::runtime::ClockMoment;
use crate::runtime::faults::FaultPoint;
use crate::store::{AttemptEnd, ClaimedJob, Completion};
use crate::telemetry::metrics::{
    ATTEMPT_SECONDS, ATTEMPTS, ATTEMPTS_RUNNING, RESPONSES, ResponseClass,
};
use crate::telemetry::traces::{AttemptSpan, JobSubject};
use finished_attempts::FinishedAttempt;
use request::build;

/// A claimed attempt that holds its slot.
pub(super) struct ClaimedAttempt {
    pub(super) shared: Arc<ExecutorShared>,
    pub(super) claimed: ClaimedJob,
    /// The moment from which the time to send counts: not later than the claim's request.
    pub(super) asked: ClockMoment,
    pub(super) slot: Slot,
    pub(super) guard: AttemptGuard,
    /// Receives the reason if the attempt is to end early.
    pub(super) aborted: oneshot::Receiver<Abort>,
}

impl ClaimedAttempt {
    /// Sends the request and hands in the outcome. The slot is freed before the commit, so that a
    /// slow commit keeps no other attempt from starting, unless too many outcomes wait already.
    pub(super) async fn run(mut self, outcomes: mpsc::Sender<FinishedAttempt>) {
        let _held = ATTEMPTS_RUNNING.hold();
        let began_at = self.shared.clock.now();
        let ended = self.send().await;
        FaultPoint::AfterSend.reach();
        let completion = self.complete(ended);
        self.trace(began_at, &completion);
        let permit = outcomes.reserve().await;
        drop(self.slot);
        // The committer outlives the attempts. If it is gone all the same, the job rescuer closes
        // this one.
        if let Ok(permit) = permit {
            permit.send(FinishedAttempt { completion, guard: self.guard });
        }
    }

    async fn send(&mut self) -> Result<Exchange, Abort> {
        let shared = &self.shared;
        if !shared.is_sendable(self.asked) {
            return Err(Abort::Released);
        }
        let timeout = Duration::from_secs(u64::from(self.claimed.definition.timeout_seconds));
        let request = match build(&self.claimed, shared.clock.now()) {
            Ok(request) => request,
            Err(failure) => return Ok(unsent(failure)),
        };
        let may_send = {
            let (shared, asked) = (shared.clone(), self.asked);
            move || shared.is_sendable(asked) || shared.lease.is_held_since(asked)
        };
        let sending = shared.client.send_while(self.claimed.account, request, timeout, may_send);
        tokio::select! {
            exchange = sending => Ok(exchange),
            Ok(why) = &mut self.aborted => Err(why),
        }
    }

    fn complete(&self, ended: Result<Exchange, Abort>) -> Completion {
        let now = self.shared.clock.now();
        // A user's cancel has changed the job, so the run that the claim returned is out of date.
        let run = (!matches!(ended, Err(Abort::Cancelled))).then(|| self.claimed.run());
        let (exchange, end) = match ended {
            Ok(exchange) => {
                let end = self.judge(&exchange, now);
                (Some(exchange), end)
            }
            Err(Abort::Cancelled) => (None, AttemptEnd::Failed(cancelled())),
            Err(Abort::Released) => (None, self.retry(lost(), None, now)),
        };
        Completion {
            job: self.claimed.job,
            attempt: self.claimed.attempt,
            executor: self.shared.id,
            run,
            completed_at: now,
            exchange,
            end,
        }
    }

    fn trace(&self, began_at: Timestamp, completion: &Completion) {
        let ClaimedJob { job, account, schedule, attempt, definition, .. } = &self.claimed;
        let span = AttemptSpan {
            subject: JobSubject { job: *job, schedule: Some(*schedule), account: Some(*account) },
            attempt: *attempt,
            method: definition.http_method.as_str(),
            endpoint: &definition.endpoint,
            began_at,
            ended_at: completion.completed_at,
            exchange: completion.exchange.as_ref(),
            error: completion.end.error(),
        };
        span.end();
    }

    fn judge(&self, exchange: &Exchange, now: Timestamp) -> AttemptEnd {
        ATTEMPT_SECONDS.record(f64::from(exchange.duration_ms) / 1_000.0);
        let response = exchange.result.as_ref().ok();
        RESPONSES.with(ResponseClass::of(response.map(|response| response.status))).add(1);
        let expected = &self.claimed.definition.expected_status_codes;
        let expected = expected.as_ref().and_then(|codes| codes.parse().ok());
        let outcome = Outcome::of(exchange, expected.as_ref());
        ATTEMPTS.with((&outcome).into()).add(1);
        match outcome {
            Outcome::Success => AttemptEnd::Succeeded,
            Outcome::Final(failure) => AttemptEnd::Failed(failure),
            Outcome::Retryable(failure) => self.retry(failure, retry_after(exchange, now), now),
        }
    }

    /// Returns the end of a failed attempt: another attempt follows if one is left.
    fn retry(&self, failure: Failure, retry_after: Option<Duration>, now: Timestamp) -> AttemptEnd {
        let ClaimedJob { attempt, max_attempts, .. } = self.claimed;
        let ExecutorShared { random, settings, .. } = &*self.shared;
        let wait = settings.retry.next(attempt, max_attempts, random.unit(), retry_after);
        AttemptEnd::failed(failure, wait.map(|wait| now.plus(wait)))
    }
}

fn retry_after(exchange: &Exchange, now: Timestamp) -> Option<Duration> {
    let headers = &exchange.result.as_ref().ok()?.headers;
    let (_, value) = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("retry-after"))?;
    parse_retry_after(value, now)
}

fn unsent(failure: Failure) -> Exchange {
    Exchange { result: Err(failure), timings: Timings::default(), duration_ms: 0 }
}

fn cancelled() -> Failure {
    let message = "the job was cancelled".to_owned();
    Failure { code: ErrorCode::Cancelled, message, retryable: false }
}

/// Returns the failure of an attempt that its executor did not finish.
pub(super) fn lost() -> Failure {
    let message = "the executor stopped while the attempt ran".to_owned();
    Failure { code: ErrorCode::WorkerLost, message, retryable: true }
}
