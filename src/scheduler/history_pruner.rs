//! Maintenance of history, in small batches: creates room for new jobs and deletes old ones.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::SchedulerContext;
use super::batch_limits::AccountBatches;
use super::pace::pause;
use crate::domain::plan::Plans;
use crate::domain::{AccountId, Timestamp};
use crate::runtime::{BatchSize, LoopPause, RunError, Worker};
use crate::store::{self, ANSWERS_KEPT, DELIVERIES_KEPT, HOURS_KEPT, PrunedRows, StoreError};

/// The time between searches for expired history.
const EVERY: Duration = Duration::from_secs(600);
/// The minimum pause between batches, so that firing never waits long for a writer.
const BETWEEN: Duration = Duration::from_millis(200);
/// The maximum number of rows of one kind that are deleted at once.
const BATCH: u32 = 500;

/// The number of accounts per plan that one pass prunes, for plans with a shorter history.
const ACCOUNTS: u32 = 20;
/// The time between two prunings of such an account. Plans count in days, and older history is not
/// shown.
const SHORT_EVERY: Duration = Duration::from_hours(24);
/// The time for which expired and revoked API keys are kept.
const KEYS_KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);

/// The retention times. A plan can extend them.
#[derive(Clone, Copy, Debug)]
pub struct HistoryPrunerSettings {
    /// The retention of finished jobs and skips.
    pub history: Duration,
    /// The retention of the audit log.
    pub audit_log: Duration,
}

/// Deletes history that is older than its retention time.
pub struct HistoryPruner {
    context: SchedulerContext,
    keep: HistoryPrunerSettings,
    plans: Arc<Plans>,
    /// The accounts with a shorter history whose pruning failed since the history of all accounts
    /// was last pruned. The next pruning of all clears this list, so that they are tried again.
    failed: HashSet<AccountId>,
    /// The number of rows of one kind that are deleted at once, over all accounts.
    size: BatchSize,
    /// The same for accounts with a shorter history.
    batches: AccountBatches,
    /// The time of the next pruning of all accounts, on the monotonic clock.
    next: Duration,
}

/// The result of one batch of each kind.
#[derive(Default)]
struct PruneResult {
    /// The maximum number of rows of each kind.
    limit: u32,
    /// The largest number of rows that were deleted of one kind.
    most: u64,
    /// `true` if a batch timed out.
    is_slow: bool,
    /// The first failure.
    failed: Option<StoreError>,
}

impl PruneResult {
    /// Adds the number of deleted rows of one kind, and returns it. A failure counts as 0 rows.
    fn add(&mut self, removed: store::Result<u64>) -> u64 {
        let rows = removed.unwrap_or_else(|error| {
            self.is_slow |= error.may_be_slow();
            self.failed.get_or_insert(error);
            0
        });
        self.most = self.most.max(rows);
        rows
    }

    /// Returns `true` if there may be more rows of a kind.
    fn is_full(&self) -> bool {
        self.most >= u64::from(self.limit)
    }
}

impl HistoryPruner {
    /// A pruner of history that is older than `keep`, or than the accounts' `plans` allow.
    pub fn new(
        context: SchedulerContext,
        mut keep: HistoryPrunerSettings,
        plans: Arc<Plans>,
    ) -> Self {
        let longest = plans.longest_history().unwrap_or_default();
        keep.history = keep.history.max(longest);
        keep.audit_log = keep.audit_log.max(longest);
        let (size, batches) = (BatchSize::new(BATCH as usize), AccountBatches::new(BATCH));
        Self { context, keep, plans, failed: HashSet::new(), size, batches, next: Duration::ZERO }
    }

    /// Deletes one batch of each kind, over all accounts. A kind that fails does not stop the
    /// others.
    async fn prune(&self, now: Timestamp) -> PruneResult {
        let store = &self.context.store;
        let limit = self.size.rows();
        let mut pass = PruneResult { limit, ..PruneResult::default() };
        pass.add(store.prepare(now).await.map(|()| 0));
        let history = store.prune(now.minus(self.keep.history), limit).await;
        let PrunedRows { days, jobs, skips, versions } = history.unwrap_or_else(|error| {
            pass.add(Err(error));
            PrunedRows::default()
        });
        pass.add(Ok(jobs.max(skips).max(versions)));
        let oldest_kept = now.minus(self.keep.audit_log);
        let audit_log = pass.add(store.prune_audit_log(oldest_kept, limit).await);
        let answers = pass.add(store.prune_answers(now.minus(ANSWERS_KEPT), limit).await);
        let keys = pass.add(store.prune_keys(now.minus(KEYS_KEPT), limit).await);
        let secrets = pass.add(store.prune_signing_secrets(now, limit).await);
        let alerts = pass.add(store.prune_deliveries(now.minus(DELIVERIES_KEPT), limit).await);
        let hours = pass.add(store.prune_hours(now.minus(HOURS_KEPT), limit).await);
        if pass.most > 0 || days > 0 {
            tracing::debug!(
                days,
                jobs,
                skips,
                versions,
                audit_log,
                answers,
                keys,
                secrets,
                alerts,
                hours,
                "pruned history"
            );
        }
        pass.add(store.prune_logins(now, limit).await);
        self.size.adapt(!pass.is_slow);
        pass
    }

    /// Returns the plans that keep history for less than the longest retention, and how long they
    /// keep it.
    fn shorter(&self) -> Vec<(String, Duration)> {
        let longest = self.keep.history.max(self.keep.audit_log);
        let shorter = self.plans.all().filter_map(|plan| {
            let history = plan.history().filter(|history| *history < longest)?;
            Some((plan.name.clone(), history))
        });
        shorter.collect()
    }

    /// Deletes one batch of each of some accounts with a shorter history. An account that fails
    /// does not stop the others. Returns `true` if there may be more to delete.
    async fn prune_shorter(&mut self, now: Timestamp) -> Result<bool, RunError> {
        let mut more = false;
        for (plan, history) in self.shorter() {
            let limit = ACCOUNTS + u32::try_from(self.failed.len()).unwrap_or(u32::MAX);
            let before = now.minus(SHORT_EVERY);
            let found = self.context.store.short_histories(&plan, before, limit).await?;
            more |= found.len() == limit as usize;
            for account in found {
                if !self.failed.contains(&account) {
                    more |= self.prune_one(account, now.minus(history), now).await;
                }
            }
        }
        Ok(more)
    }

    /// Deletes one batch of an account. Returns `true` if there may be more.
    async fn prune_one(&mut self, account: AccountId, before: Timestamp, now: Timestamp) -> bool {
        let limit = self.batches.limit(account);
        let pruned = self.context.store.prune_account(account, before, now, limit).await;
        self.batches.adapt(account, &pruned);
        match pruned {
            Ok(rows) => {
                if rows > 0 {
                    tracing::debug!(%account, rows, "pruned the history of an account");
                }
                rows >= u64::from(limit)
            }
            Err(error) => {
                tracing::warn!(%account, %error, "the history of an account was not pruned");
                self.failed.insert(account);
                false
            }
        }
    }
}

#[async_trait]
impl Worker for HistoryPruner {
    /// Alternates between one batch over all accounts, when it is time for that, and one of some
    /// accounts with a shorter history, so that neither delays the other.
    async fn run_once(&mut self, now: Timestamp) -> Result<LoopPause, RunError> {
        let clock = self.context.clock.clone();
        let began = clock.monotonic();
        let mut failed = None;
        if began >= self.next {
            let pass = self.prune(now).await;
            let is_full = pass.is_full();
            failed = pass.failed;
            self.failed.clear();
            // A pass that failed or filled a batch is repeated soon.
            if !is_full && failed.is_none() {
                self.next = began + EVERY;
            }
        }
        let more = self.prune_shorter(now).await?;
        match failed {
            Some(error) => Err(error.into()),
            None if more || self.next <= began => {
                Ok(LoopPause::For(pause(clock.monotonic().saturating_sub(began), BETWEEN)))
            }
            None => Ok(LoopPause::For(self.next.saturating_sub(clock.monotonic()))),
        }
    }
}
