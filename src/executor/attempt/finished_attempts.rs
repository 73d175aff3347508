//! Attempts that have ended and are not committed yet.

use crate::domain::{JobId, Timestamp};
use crate::executor::attempt_registry::AttemptGuard;
use crate::executor::shared::ExecutorShared;
use crate::store::{AttemptEnd, Completion};

/// An ended attempt with its completion. Its guard keeps a stop, which ends the lease, waiting
/// until the outcome is committed. So the outcome of a request that was sent is not lost when the
/// store is slow.
pub(in crate::executor) struct FinishedAttempt {
    pub(in crate::executor) completion: Completion,
    pub(in crate::executor) guard: AttemptGuard,
}

impl FinishedAttempt {
    /// Ends an attempt without a request, in the way that `end` decides at that time; `None` if the
    /// attempt is under way.
    pub(in crate::executor) fn unsent(
        shared: &ExecutorShared,
        (job, attempt): (JobId, u8),
        end: impl FnOnce(Timestamp) -> AttemptEnd,
    ) -> Option<Self> {
        let (guard, _) = shared.registry.register(job, attempt, None)?;
        let completed_at = shared.clock.now();
        let completion = Completion {
            job,
            attempt,
            executor: shared.id,
            run: None,
            completed_at,
            exchange: None,
            end: end(completed_at),
        };
        Some(Self { completion, guard })
    }
}

/// Ended attempts to commit at once.
pub(in crate::executor) struct FinishedBatch {
    pub(in crate::executor) completions: Vec<Completion>,
    guards: Vec<AttemptGuard>,
}

impl FinishedBatch {
    pub(in crate::executor) fn len(&self) -> usize {
        self.completions.len()
    }

    /// Splits off the later half.
    pub(in crate::executor) fn split(&mut self) -> Self {
        let half = self.len() / 2;
        let (completions, guards) = (self.completions.split_off(half), self.guards.split_off(half));
        Self { completions, guards }
    }

    pub(in crate::executor) fn into_ended(self) -> impl Iterator<Item = FinishedAttempt> {
        let pairs = self.completions.into_iter().zip(self.guards);
        pairs.map(|(completion, guard)| FinishedAttempt { completion, guard })
    }
}

impl FromIterator<FinishedAttempt> for FinishedBatch {
    fn from_iter<I: IntoIterator<Item = FinishedAttempt>>(ended: I) -> Self {
        let pairs =
            ended.into_iter().map(|FinishedAttempt { completion, guard }| (completion, guard));
        let (completions, guards) = pairs.unzip();
        Self { completions, guards }
    }
}
