//! The attempts under way: from their claims until their outcomes are committed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::domain::JobId;

/// Why an attempt is ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abort {
    /// A user cancelled the job.
    Cancelled,
    /// This replica stops.
    Released,
}

/// The attempts under way.
#[derive(Default)]
pub(super) struct Running {
    attempts: Mutex<Attempts>,
    idle: Notify,
}

#[derive(Default)]
struct Attempts {
    /// How each can be aborted, unless it has been. After a claim was lost, the next attempt of the
    /// same job may be here beside it.
    entries: BTreeMap<(JobId, u8), Option<oneshot::Sender<Abort>>>,
    /// How many batches are being fired whose attempts enter afterwards.
    coming: usize,
    /// Set when all were aborted: what enters after that is, too.
    closed: Option<Abort>,
}

/// An attempt's place among those under way; dropping it takes it out, however it ended.
pub(super) struct Place {
    running: Arc<Running>,
    job: JobId,
    attempt: u8,
}

/// Attempts that are yet to enter.
pub(super) struct Coming(Arc<Running>);

impl Running {
    /// Puts an attempt in; `None` if it is there already. The receiver is told when it shall be
    /// aborted.
    pub(super) fn enter(
        self: &Arc<Self>,
        job: JobId,
        attempt: u8,
    ) -> Option<(Place, oneshot::Receiver<Abort>)> {
        let (abort, aborted) = oneshot::channel();
        let mut attempts = self.lock();
        if attempts.entries.contains_key(&(job, attempt)) {
            return None;
        }
        let abort = match attempts.closed {
            Some(why) => abort.send(why).map_or(None, |()| None),
            None => Some(abort),
        };
        attempts.entries.insert((job, attempt), abort);
        Some((Place { running: self.clone(), job, attempt }, aborted))
    }

    /// Announces attempts that enter before what is returned is dropped.
    pub(super) fn announce(self: &Arc<Self>) -> Coming {
        self.lock().coming += 1;
        Coming(self.clone())
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Their jobs and numbers.
    pub(super) fn all(&self) -> Vec<(JobId, u8)> {
        self.lock().entries.keys().copied().collect()
    }

    /// Aborts the attempts of these jobs; says how many were sending.
    pub(super) fn abort(&self, jobs: &[JobId], why: Abort) -> usize {
        let mut attempts = self.lock();
        let of_job = |job: &JobId| {
            let own = attempts.entries.range_mut((*job, u8::MIN)..=(*job, u8::MAX));
            own.filter_map(|(_, abort)| abort.take()?.send(why).ok()).count()
        };
        jobs.iter().map(of_job).sum()
    }

    /// Aborts all, those too that are yet to enter; says how many were sending.
    pub(super) fn abort_all(&self, why: Abort) -> usize {
        let mut attempts = self.lock();
        attempts.closed = Some(why);
        let all = attempts.entries.values_mut();
        all.filter_map(|abort| abort.take()?.send(why).ok()).count()
    }

    /// Waits until there are none.
    pub(super) async fn idle(&self) {
        loop {
            let notified = self.idle.notified();
            if self.lock().is_idle() {
                return;
            }
            notified.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempts {
    fn is_idle(&self) -> bool {
        self.entries.is_empty() && self.coming == 0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut attempts = self.running.lock();
        attempts.entries.remove(&(self.job, self.attempt));
        if attempts.is_idle() {
            self.running.idle.notify_waiters();
        }
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        let mut attempts = self.0.lock();
        attempts.coming -= 1;
        if attempts.is_idle() {
            self.0.idle.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;

    fn job() -> JobId {
        JobId::new(Timestamp::from_millis(0), 1)
    }

    #[test]
    fn two_attempts_of_a_job_are_two() {
        let running = Arc::new(Running::default());
        let (first, mut late) = running.enter(job(), 1).expect("new");
        let (second, mut aborted) = running.enter(job(), 2).expect("new");
        assert!(running.enter(job(), 2).is_none(), "it runs already");
        assert_eq!(running.all(), [(job(), 1), (job(), 2)], "both are renewed");
        drop(second);
        assert_eq!(running.all(), [(job(), 1)], "the first one still is");
        assert!(aborted.try_recv().is_err());
        assert_eq!(running.abort(&[job()], Abort::Cancelled), 1);
        assert_eq!(late.try_recv(), Ok(Abort::Cancelled));
        assert_eq!(running.abort_all(Abort::Released), 0, "it has been told");
        drop(first);
        assert_eq!(running.len(), 0);
    }

    #[test]
    fn what_enters_after_all_were_aborted_is_aborted() {
        let running = Arc::new(Running::default());
        assert_eq!(running.abort_all(Abort::Released), 0);
        let (_place, mut aborted) = running.enter(job(), 1).expect("new");
        assert_eq!(aborted.try_recv(), Ok(Abort::Released));
    }
}
