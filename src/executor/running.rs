//! The attempts under way.

use std::collections::HashMap;
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

/// The attempts under way, by job.
#[derive(Default)]
pub(super) struct Running {
    attempts: Mutex<Attempts>,
    idle: Notify,
}

#[derive(Default)]
struct Attempts {
    by_job: HashMap<JobId, Entry>,
    /// Set when all were aborted: what enters after that is, too.
    closed: Option<Abort>,
}

struct Entry {
    attempt: u8,
    abort: Option<oneshot::Sender<Abort>>,
}

/// An attempt's place among those under way; dropping it takes it out, however it ended.
pub(super) struct Place {
    running: Arc<Running>,
    job: JobId,
    attempt: u8,
}

impl Running {
    /// Puts an attempt in. The receiver is told when it shall be aborted.
    pub(super) fn enter(
        self: &Arc<Self>,
        job: JobId,
        attempt: u8,
    ) -> (Place, oneshot::Receiver<Abort>) {
        let (abort, aborted) = oneshot::channel();
        let mut attempts = self.lock();
        let abort = match attempts.closed {
            Some(why) => abort.send(why).map_or(None, |()| None),
            None => Some(abort),
        };
        attempts.by_job.insert(job, Entry { attempt, abort });
        (Place { running: self.clone(), job, attempt }, aborted)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.lock().by_job.len()
    }

    /// All jobs, with their attempts.
    pub(super) fn all(&self) -> Vec<(JobId, u8)> {
        self.lock().by_job.iter().map(|(job, entry)| (*job, entry.attempt)).collect()
    }

    /// Aborts those of the jobs that run here; says how many.
    pub(super) fn abort(&self, jobs: &[JobId], why: Abort) -> usize {
        let mut attempts = self.lock();
        let entries = jobs.iter().filter_map(|job| attempts.by_job.get_mut(job)?.abort.take());
        entries.filter_map(|abort| abort.send(why).ok()).count()
    }

    /// Aborts all, those too that are yet to enter; says how many there are.
    pub(super) fn abort_all(&self, why: Abort) -> usize {
        self.lock().closed = Some(why);
        let jobs: Vec<_> = self.all().into_iter().map(|(job, _)| job).collect();
        self.abort(&jobs, why)
    }

    /// Waits until there are none.
    pub(super) async fn idle(&self) {
        loop {
            let notified = self.idle.notified();
            if self.lock().by_job.is_empty() {
                return;
            }
            notified.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut attempts = self.running.lock();
        // After a claim was lost the next attempt of the same job may be here already.
        if attempts.by_job.get(&self.job).is_some_and(|entry| entry.attempt == self.attempt) {
            attempts.by_job.remove(&self.job);
        }
        if attempts.by_job.is_empty() {
            self.running.idle.notify_waiters();
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
    fn an_attempt_that_ends_late_leaves_the_next_one_alone() {
        let running = Arc::new(Running::default());
        let (first, _) = running.enter(job(), 1);
        let (second, mut aborted) = running.enter(job(), 2);
        drop(first);
        assert_eq!(running.all(), [(job(), 2)], "it is still renewed");
        assert_eq!(running.abort(&[job()], Abort::Cancelled), 1);
        assert_eq!(aborted.try_recv(), Ok(Abort::Cancelled));
        drop(second);
        assert_eq!(running.len(), 0);
    }

    #[test]
    fn what_enters_after_all_were_aborted_is_aborted() {
        let running = Arc::new(Running::default());
        assert_eq!(running.abort_all(Abort::Released), 0);
        let (_place, mut aborted) = running.enter(job(), 1);
        assert_eq!(aborted.try_recv(), Ok(Abort::Released));
    }
}
