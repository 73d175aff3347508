//! The store calls for accounts with a quota: reserving jobs, counting the jobs made so far, and
//! waiting for locked counters.

use std::collections::HashMap;
use std::time::Duration;

use super::SchedulerContext;
use crate::domain::{AccountId, Timestamp};
use crate::store::{GrantedJobs, JobGrants, StoreError, WantedJobs};

/// The maximum number of jobs of an account that are reserved ahead.
const RESERVED_AHEAD: u32 = 1_000;
/// The pause before the store is asked again for an account whose jobs are being counted, or whose
/// counter stayed locked.
const COUNT_RETRY_DELAY: Duration = Duration::from_secs(1);
/// The maximum time that a batch waits for locked counters, all together, before the other
/// schedules fire.
const LOCKED_COUNTERS_TIMEOUT: Duration = Duration::from_millis(250);

/// The answers of the store for a batch, by account.
pub(super) struct ReservationAnswers<'a> {
    context: &'a SchedulerContext,
    now: Timestamp,
    pub(super) granted: HashMap<AccountId, GrantedJobs>,
    /// The time until the next try, for some of the other accounts.
    pub(super) waits: HashMap<AccountId, Duration>,
    /// `true` if the store has failed.
    pub(super) failed: bool,
}

impl<'a> ReservationAnswers<'a> {
    pub(super) fn new(context: &'a SchedulerContext, now: Timestamp) -> Self {
        Self { context, now, granted: HashMap::new(), waits: HashMap::new(), failed: false }
    }

    /// Reserves jobs for all accounts at once. Returns the accounts whose counter is locked.
    pub(super) async fn ask(&mut self, wanted: &[WantedJobs]) -> Vec<AccountId> {
        match self.context.store.reserve_jobs(self.now, RESERVED_AHEAD, wanted).await {
            Ok(JobGrants { granted, held }) => {
                self.granted.extend(granted.into_iter().map(|granted| (granted.account, granted)));
                held
            }
            Err(error) => {
                self.fail(&error);
                Vec::new()
            }
        }
    }

    /// Starts the count of the accounts' jobs, and reserves again for those that are counted soon.
    pub(super) async fn count(&mut self, wanted: &[WantedJobs], timeout: Duration) {
        let Self { context, now, .. } = *self;
        let accounts: Vec<_> = wanted.iter().map(|wanted| wanted.account).collect();
        self.waits.extend(accounts.iter().map(|account| (*account, COUNT_RETRY_DELAY)));
        let counted = tokio::select! {
            biased;
            counted = context.store.begin_months(now, &accounts) => counted,
            () = context.clock.sleep(timeout) => Ok(()),
        };
        match counted {
            // Accounts with few jobs are counted before the others.
            Ok(()) => drop(self.ask(wanted).await),
            Err(error) => self.fail(&error),
        }
    }

    /// Waits for locked counters, one after the other. Waiters get a counter in the order of their
    /// arrival, so users that keep one busy cannot starve the leader.
    pub(super) async fn wait_for(&mut self, held: impl Iterator<Item = &WantedJobs>) {
        let Self { context, now, .. } = *self;
        let end = context.clock.monotonic() + LOCKED_COUNTERS_TIMEOUT;
        for wanted in held {
            if self.failed || context.clock.monotonic() >= end {
                return;
            }
            match context.store.await_jobs(now, RESERVED_AHEAD, wanted).await {
                Ok(Some(granted)) => drop(self.granted.insert(granted.account, granted)),
                Ok(None) => drop(self.waits.insert(wanted.account, COUNT_RETRY_DELAY)),
                Err(error) => self.fail(&error),
            }
        }
    }

    fn fail(&mut self, error: &StoreError) {
        tracing::warn!(%error, "jobs of accounts with a quota not reserved");
        self.failed = true;
    }
}
