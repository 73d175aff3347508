//! The attempts under way, from their claims until their outcomes are committed.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{Notify, oneshot};

use crate::domain::{AccountId, JobId};
use crate::runtime::Mutex;

/// The reason why an attempt is ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::executor) enum Abort {
    /// A user cancelled the job, or its account was deleted.
    Cancelled,
    /// This replica stops.
    Released,
}

/// The attempts under way.
#[derive(Default)]
pub(in crate::executor) struct AttemptRegistry {
    attempts: Mutex<RegisteredAttempts>,
    idle: Notify,
}

#[derive(Default)]
struct RegisteredAttempts {
    /// After a claim was lost, the next attempt of the same job may run beside the earlier one.
    entries: BTreeMap<(JobId, u8), RegisteredAttempt>,
    /// The number of batches being fired or claimed whose attempts are registered afterwards.
    announced: usize,
    /// Set when all attempts were aborted. Attempts that are registered later are aborted, too.
    closed: Option<Abort>,
}

struct RegisteredAttempt {
    /// `None` for an attempt that cannot be sent and ends at once.
    account: Option<AccountId>,
    /// Aborts the attempt; `None` once that was done.
    abort: Option<oneshot::Sender<Abort>>,
}

impl RegisteredAttempt {
    /// Aborts the attempt. Returns `true` if its task has not finished and was not aborted before.
    fn abort(&mut self, why: Abort) -> bool {
        self.abort.take().is_some_and(|abort| abort.send(why).is_ok())
    }
}

/// An attempt's entry among those under way. Dropping it removes the entry, however the attempt
/// ended.
pub(in crate::executor) struct AttemptGuard {
    registry: Arc<AttemptRegistry>,
    job: JobId,
    attempt: u8,
}

/// Attempts that have been announced and are not registered yet.
pub(in crate::executor) struct AnnouncedAttempts(Arc<AttemptRegistry>);

impl AttemptRegistry {
    /// Registers an attempt; `None` if it is there already. The receiver gets the reason if the
    /// attempt is aborted.
    pub(in crate::executor) fn register(
        self: &Arc<Self>,
        job: JobId,
        attempt: u8,
        account: Option<AccountId>,
    ) -> Option<(AttemptGuard, oneshot::Receiver<Abort>)> {
        let (abort, aborted) = oneshot::channel();
        let mut attempts = self.attempts.lock();
        if attempts.entries.contains_key(&(job, attempt)) {
            return None;
        }
        let abort = match attempts.closed {
            Some(why) => abort.send(why).map_or(None, |()| None),
            None => Some(abort),
        };
        attempts.entries.insert((job, attempt), RegisteredAttempt { account, abort });
        Some((AttemptGuard { registry: self.clone(), job, attempt }, aborted))
    }

    /// Announces attempts that will be registered before the returned guard is dropped.
    pub(in crate::executor) fn announce(self: &Arc<Self>) -> AnnouncedAttempts {
        self.attempts.lock().announced += 1;
        AnnouncedAttempts(self.clone())
    }

    /// Returns the number of attempts under way.
    pub(in crate::executor) fn len(&self) -> usize {
        self.attempts.lock().entries.len()
    }

    /// Aborts the attempts of these jobs. Returns how many of them had not finished.
    pub(in crate::executor) fn abort(&self, jobs: &[JobId], why: Abort) -> usize {
        let mut attempts = self.attempts.lock();
        let of_job = |job: &JobId| {
            let own = attempts.entries.range_mut((*job, u8::MIN)..=(*job, u8::MAX));
            own.map(|(_, entry)| usize::from(entry.abort(why))).sum::<usize>()
        };
        jobs.iter().map(of_job).sum()
    }

    /// Aborts the attempts of these accounts.
    pub(in crate::executor) fn abort_of(&self, accounts: &[AccountId], why: Abort) {
        if accounts.is_empty() {
            return;
        }
        for entry in self.attempts.lock().entries.values_mut() {
            if entry.account.is_some_and(|account| accounts.contains(&account)) {
                entry.abort(why);
            }
        }
    }

    /// Aborts all attempts, and those that are registered later. Returns how many of them had not
    /// finished.
    pub(in crate::executor) fn abort_all(&self, why: Abort) -> usize {
        let mut attempts = self.attempts.lock();
        attempts.closed = Some(why);
        attempts.entries.values_mut().map(|entry| usize::from(entry.abort(why))).sum()
    }

    /// Waits until no attempt is under way and none is announced.
    pub(in crate::executor) async fn idle(&self) {
        loop {
            let notified = self.idle.notified();
            if self.attempts.lock().is_idle() {
                return;
            }
            notified.await;
        }
    }

    fn deregister(&self, leave: impl FnOnce(&mut RegisteredAttempts)) {
        let mut attempts = self.attempts.lock();
        leave(&mut attempts);
        if attempts.is_idle() {
            self.idle.notify_waiters();
        }
    }
}

impl RegisteredAttempts {
    fn is_idle(&self) -> bool {
        self.entries.is_empty() && self.announced == 0
    }
}

impl Drop for AttemptGuard {
    fn drop(&mut self) {
        self.registry
            .deregister(|attempts| drop(attempts.entries.remove(&(self.job, self.attempt))));
    }
}

impl Drop for AnnouncedAttempts {
    fn drop(&mut self) {
        self.0.deregister(|attempts| attempts.announced -= 1);
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
        let registry = Arc::new(AttemptRegistry::default());
        let (first, mut late) = registry.register(job(), 1, None).expect("new");
        let (second, mut aborted) = registry.register(job(), 2, None).expect("new");
        assert!(registry.register(job(), 2, None).is_none(), "it runs already");
        assert_eq!(registry.len(), 2);
        drop(second);
        assert_eq!(registry.len(), 1, "the first one still runs");
        assert!(aborted.try_recv().is_err());
        assert_eq!(registry.abort(&[job()], Abort::Cancelled), 1);
        assert_eq!(late.try_recv(), Ok(Abort::Cancelled));
        assert_eq!(registry.abort_all(Abort::Released), 0, "it was aborted before");
        drop(first);
        assert_eq!(registry.len(), 0);
    }

    #[test]
    fn the_attempts_of_an_account_are_aborted() {
        let registry = Arc::new(AttemptRegistry::default());
        let [one, two] = [1, 2].map(|byte| AccountId::from_bytes([byte; 16]));
        let (_first, mut of_one) = registry.register(job(), 1, Some(one)).expect("new");
        let (_second, mut of_two) = registry.register(job(), 2, Some(two)).expect("new");
        registry.abort_of(&[], Abort::Cancelled);
        registry.abort_of(&[two], Abort::Cancelled);
        assert_eq!(of_two.try_recv(), Ok(Abort::Cancelled));
        assert!(of_one.try_recv().is_err());
    }

    #[test]
    fn an_attempt_registered_after_all_were_aborted_is_aborted() {
        let registry = Arc::new(AttemptRegistry::default());
        assert_eq!(registry.abort_all(Abort::Released), 0);
        let (_guard, mut aborted) = registry.register(job(), 1, None).expect("new");
        assert_eq!(aborted.try_recv(), Ok(Abort::Released));
    }
}
