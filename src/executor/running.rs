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
    attempts: Mutex<HashMap<JobId, Entry>>,
    idle: Notify,
}

struct Entry {
    attempt: u8,
    abort: Option<oneshot::Sender<Abort>>,
}

/// An attempt's place among those under way; dropping it takes it out, however it ended.
pub(super) struct Place {
    running: Arc<Running>,
    job: JobId,
}

impl Running {
    /// Puts an attempt in. The receiver is told when it shall be aborted.
    pub(super) fn enter(
        self: &Arc<Self>,
        job: JobId,
        attempt: u8,
    ) -> (Place, oneshot::Receiver<Abort>) {
        let (abort, aborted) = oneshot::channel();
        self.lock().insert(job, Entry { attempt, abort: Some(abort) });
        (Place { running: self.clone(), job }, aborted)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// All jobs, with their attempts.
    pub(super) fn all(&self) -> Vec<(JobId, u8)> {
        self.lock().iter().map(|(job, entry)| (*job, entry.attempt)).collect()
    }

    /// Aborts those of the jobs that run here; says how many.
    pub(super) fn abort(&self, jobs: &[JobId], why: Abort) -> usize {
        let mut attempts = self.lock();
        let entries = jobs.iter().filter_map(|job| attempts.get_mut(job)?.abort.take());
        entries.filter_map(|abort| abort.send(why).ok()).count()
    }

    /// Aborts all; says how many.
    pub(super) fn abort_all(&self, why: Abort) -> usize {
        let jobs: Vec<_> = self.all().into_iter().map(|(job, _)| job).collect();
        self.abort(&jobs, why)
    }

    /// Waits until there are none.
    pub(super) async fn idle(&self) {
        loop {
            let notified = self.idle.notified();
            if self.lock().is_empty() {
                return;
            }
            notified.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Entry>> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut attempts = self.running.lock();
        attempts.remove(&self.job);
        if attempts.is_empty() {
            self.running.idle.notify_waiters();
        }
    }
}
