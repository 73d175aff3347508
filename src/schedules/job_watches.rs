//! Watches unfinished jobs for the pages that show them.
//!
//! A replica reads a watched job once a second, for any number of pages. It stops when no page
//! shows the job any more, when the job is final or gone, and when the process stops. If the store
//! fails, it tries again after a second.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{CommandError, Schedules};
use crate::domain::job::{Attempt, Job};
use crate::domain::{AccountId, JobId};
use crate::runtime::{Mutex, TaskKind};

/// The interval at which a watched job is read.
const INTERVAL: Duration = Duration::from_secs(1);

/// A job with its attempts and the name of its schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedJob {
    /// The job.
    pub job: Job,
    /// Its attempts.
    pub attempts: Vec<Attempt>,
    /// The name of the schedule; absent if it was deleted.
    pub schedule: Option<String>,
}

type JobSender = watch::Sender<Arc<WatchedJob>>;

/// The watched jobs of this replica. Clones share them.
#[derive(Clone)]
pub struct JobWatches(Arc<WatchedJobs>);

struct WatchedJobs {
    schedules: Schedules,
    senders: Mutex<HashMap<(AccountId, JobId), JobSender>>,
    permits: Arc<Semaphore>,
    /// The maximum number of watches of an account, and the number of each that has any.
    most_of_account: usize,
    of_accounts: Mutex<HashMap<AccountId, usize>>,
}

/// A watch on one job. It holds one of the permits until it is dropped.
pub struct JobWatch {
    receiver: watch::Receiver<Arc<WatchedJob>>,
    _permits: (OwnedSemaphorePermit, AccountPermit),
}

/// A permit of an account, until it is dropped.
struct AccountPermit {
    watched: Arc<WatchedJobs>,
    account: AccountId,
}

impl AccountPermit {
    /// Takes a permit. Returns `None` if the account has none left.
    fn take(watched: &Arc<WatchedJobs>, account: AccountId) -> Option<Self> {
        let mut counts = watched.of_accounts.lock();
        let count = counts.get(&account).copied().unwrap_or(0);
        if count >= watched.most_of_account {
            return None;
        }
        counts.insert(account, count + 1);
        Some(Self { watched: watched.clone(), account })
    }
}

impl Drop for AccountPermit {
    fn drop(&mut self) {
        let mut counts = self.watched.of_accounts.lock();
        match counts.get_mut(&self.account) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(counts.remove(&self.account)),
        }
    }
}

impl JobWatch {
    /// Waits for the next read of the job, and returns the job, changed or not. Returns `None`
    /// after the last read.
    pub async fn next(&mut self) -> Option<Arc<WatchedJob>> {
        self.receiver.changed().await.ok()?;
        Some(self.receiver.borrow_and_update().clone())
    }
}

impl Schedules {
    /// Returns a job with its attempts and the name of its schedule.
    ///
    /// # Errors
    /// `NoSuchJob` if the account has no such job, or if the store fails.
    pub async fn shown_job(
        &self,
        account: AccountId,
        id: JobId,
    ) -> Result<WatchedJob, CommandError> {
        let (job, attempts) = self.job(account, id).await?;
        let schedule = match self.get(account, job.schedule_id).await {
            Ok(schedule) => Some(schedule.name),
            Err(CommandError::NoSuchSchedule) => None,
            Err(error) => return Err(error),
        };
        Ok(WatchedJob { job, attempts, schedule })
    }
}

impl JobWatches {
    /// Creates the service. At most `most` watches exist at once, of which an account has at most
    /// `most_of_account`.
    pub fn new(schedules: Schedules, most: usize, most_of_account: usize) -> Self {
        Self(Arc::new(WatchedJobs {
            schedules,
            senders: Mutex::default(),
            permits: Arc::new(Semaphore::new(most)),
            most_of_account,
            of_accounts: Mutex::default(),
        }))
    }

    /// Watches a job that was just read. Returns `None` if there are too many watches, of all
    /// accounts or of this one.
    pub fn watch(&self, account: AccountId, shown: &Arc<WatchedJob>) -> Option<JobWatch> {
        let of_account = AccountPermit::take(&self.0, account)?;
        let permits = (self.0.permits.clone().try_acquire_owned().ok()?, of_account);
        let key = (account, shown.job.id);
        let mut senders = self.0.senders.lock();
        if let Some(sender) = senders.get(&key) {
            return Some(JobWatch { receiver: sender.subscribe(), _permits: permits });
        }
        let (sender, receiver) = watch::channel(shown.clone());
        senders.insert(key, sender.clone());
        // A runtime that shuts down drops the reader at once, and the reader locks the senders
        // then.
        drop(senders);
        let reader = JobReader { watched: self.0.clone(), key, sender };
        self.0.schedules.0.tasks.spawn(TaskKind::Watch, reader.run());
        Some(JobWatch { receiver, _permits: permits })
    }
}

/// Reads one job for all of its watches. When it ends, the watches end.
struct JobReader {
    watched: Arc<WatchedJobs>,
    key: (AccountId, JobId),
    sender: JobSender,
}

impl JobReader {
    async fn run(self) {
        let (account, id) = self.key;
        let schedules = self.watched.schedules.clone();
        let (clock, stopping) = (&schedules.0.clock, schedules.0.tasks.stopping());
        let mut is_failing = false;
        while stopping.run_until_cancelled(clock.sleep(INTERVAL)).await.is_some() {
            if self.ends_unwatched() {
                return;
            }
            match schedules.shown_job(account, id).await {
                Ok(shown) => {
                    is_failing = false;
                    let is_final = shown.job.status.is_final();
                    self.send(shown);
                    if is_final {
                        return;
                    }
                }
                Err(CommandError::NoSuchJob) => return,
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::warn!(job = %id, %error, "cannot read a watched job, will retry");
                    }
                }
            }
        }
    }

    /// Wakes all watches. If nothing has changed, they get the same object again.
    fn send(&self, shown: WatchedJob) {
        self.sender.send_modify(|before| {
            if **before != shown {
                *before = Arc::new(shown);
            }
        });
    }

    /// Gives the job up if nothing watches it. A watch that begins at the same moment either comes
    /// first or gets a reader of its own.
    fn ends_unwatched(&self) -> bool {
        let mut senders = self.watched.senders.lock();
        let is_unwatched = self.sender.receiver_count() == 0;
        if is_unwatched {
            senders.remove(&self.key);
        }
        is_unwatched
    }
}

impl Drop for JobReader {
    fn drop(&mut self) {
        let mut senders = self.watched.senders.lock();
        let is_own = |sender: &JobSender| sender.same_channel(&self.sender);
        if senders.get(&self.key).is_some_and(is_own) {
            senders.remove(&self.key);
        }
    }
}
