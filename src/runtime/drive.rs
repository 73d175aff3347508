//! The driver of all loops.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::sync::Notify;

use super::{Clock, TaskKind, Tasks};
use crate::domain::Timestamp;
use crate::telemetry::metrics::{LOOP_RUNS_FAILED, Loop, LoopHeartbeat};

/// The pause of a loop after a run. A hint ends it early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopPause {
    /// No pause: there is more to do.
    None,
    /// A fixed duration.
    For(Duration),
    /// Until an instant.
    Until(Timestamp),
}

/// The reason why a run failed. The driver logs it and retries with a growing pause.
pub type RunError = Box<dyn std::error::Error + Send + Sync>;

/// The work of a loop. All of it is in `run_once`, which tests call directly.
#[async_trait]
pub trait Worker: Send {
    /// Does one pass of work at `now`.
    async fn run_once(&mut self, now: Timestamp) -> Result<LoopPause, RunError>;
}

/// The longest pause between failing runs.
const SLOWEST_RETRY: Duration = Duration::from_secs(2);
const FASTEST_RETRY: Duration = Duration::from_millis(50);

/// Runs `worker` repeatedly until the first stage of a stop.
///
/// The stop never cancels a run. A run that panics counts as a failed run. The worker keeps its
/// state, so its `run_once` must be able to continue from any point.
pub async fn drive<W: Worker>(
    tasks: &Tasks,
    kind: TaskKind,
    clock: &Clock,
    hint: &Notify,
    worker: &mut W,
) {
    let mut retry = FASTEST_RETRY;
    let beat = LoopHeartbeat::start(kind.into(), clock.monotonic());
    while !tasks.stopping().is_cancelled() {
        let run = AssertUnwindSafe(worker.run_once(clock.now())).catch_unwind().await;
        let pause = match run {
            Ok(Ok(pause)) => {
                retry = FASTEST_RETRY;
                pause
            }
            failed => {
                log_failure(kind, failed.map(Result::err), retry);
                let pause = retry;
                retry = (retry * 2).min(SLOWEST_RETRY);
                // Hints are ignored here, so that they cannot turn a failing loop into a busy loop.
                tokio::select! {
                    () = clock.sleep(pause) => {}
                    () = tasks.stopping().cancelled() => {}
                }
                continue;
            }
        };
        beat.due(clock.monotonic() + span(pause, clock));
        let wake = async {
            match pause {
                LoopPause::None => tokio::task::yield_now().await,
                LoopPause::For(span) => clock.sleep(span).await,
                LoopPause::Until(instant) => clock.sleep_until(instant).await,
            }
        };
        tokio::select! {
            () = wake => {}
            () = hint.notified() => {}
            () = tasks.stopping().cancelled() => {}
        }
        // The heartbeat is not reset before each run, so that a loop that keeps failing stays
        // overdue.
        beat.due(clock.monotonic());
    }
}

/// Returns the length of a pause.
fn span(pause: LoopPause, clock: &Clock) -> Duration {
    match pause {
        LoopPause::None => Duration::ZERO,
        LoopPause::For(span) => span,
        LoopPause::Until(instant) => instant.since(clock.now()),
    }
}

fn log_failure(kind: TaskKind, failed: std::thread::Result<Option<RunError>>, retry: Duration) {
    LOOP_RUNS_FAILED.with(kind.into()).add(1);
    let retry_ms = u64::try_from(retry.as_millis()).unwrap_or(u64::MAX);
    match failed {
        Ok(Some(error)) => {
            tracing::warn!(loop_name = kind.name(), %error, retry_ms, "run failed, trying again");
        }
        _ => tracing::error!(loop_name = kind.name(), retry_ms, "run panicked, trying again"),
    }
}

impl From<TaskKind> for Loop {
    fn from(kind: TaskKind) -> Self {
        match kind {
            TaskKind::Leader => Self::Leader,
            TaskKind::JobRescuer => Self::JobRescuer,
            TaskKind::Executor => Self::Executor,
            TaskKind::Committer => Self::Committer,
            TaskKind::Renewer => Self::Renewer,
            TaskKind::Notifier => Self::Notifier,
            TaskKind::Upkeep => Self::Upkeep,
            TaskKind::Listener
            | TaskKind::Connection
            | TaskKind::Command
            | TaskKind::Watch
            | TaskKind::Forecast
            | TaskKind::Writer
            | TaskKind::Claim
            | TaskKind::Attempt
            | TaskKind::Delivery
            | TaskKind::Recorder
            | TaskKind::Hints
            | TaskKind::Member
            | TaskKind::Traces => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails, panics, then asks for a long pause.
    struct Stumbling {
        runs: tokio::sync::mpsc::UnboundedSender<u32>,
        count: u32,
    }

    #[async_trait]
    impl Worker for Stumbling {
        async fn run_once(&mut self, _: Timestamp) -> Result<LoopPause, RunError> {
            self.count += 1;
            self.runs.send(self.count)?;
            match self.count {
                1 => Err("not yet".into()),
                2 => panic!("worse"),
                _ => Ok(LoopPause::For(Duration::from_secs(3_600))),
            }
        }
    }

    #[tokio::test]
    async fn survives_failures_wakes_on_hints_and_stops() {
        let (sender, mut runs) = tokio::sync::mpsc::unbounded_channel();
        let tasks = Tasks::new();
        let hint = std::sync::Arc::new(Notify::new());
        let (inner, wake) = (tasks.clone(), hint.clone());
        tasks.spawn(TaskKind::Upkeep, async move {
            let mut worker = Stumbling { runs: sender, count: 0 };
            drive(&inner, TaskKind::Upkeep, &Clock::system(), &wake, &mut worker).await;
        });
        for expected in 1..=3 {
            assert_eq!(runs.recv().await, Some(expected));
        }
        hint.notify_one();
        assert_eq!(runs.recv().await, Some(4));
        assert!(tasks.finish(Duration::from_secs(1)).await);
        assert_eq!(runs.recv().await, None);
    }
}
