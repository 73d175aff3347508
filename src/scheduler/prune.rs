//! Upkeep of history: room for the jobs to come, and the end of the old ones, in small batches.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Context;
use crate::domain::plan::{Plan, Plans};
use crate::domain::{AccountId, Timestamp};
use crate::runtime::{Pause, RunError, Worker};
use crate::store::{ANSWERS_KEPT, Upkeep};

/// How often it looks for history that is over.
const EVERY: Duration = Duration::from_secs(600);
/// The rest between batches, so that firing never waits long for a writer.
const BETWEEN: Duration = Duration::from_millis(200);
/// The most rows of a kind removed at once.
const BATCH: u32 = 500;

/// How many accounts are looked at in a round whose histories are shorter than others.
const ACCOUNTS: usize = 20;
/// How long a key is remembered that has expired or was revoked.
const KEYS_KEPT: Duration = Duration::from_secs(30 * 24 * 3_600);

/// How long things are kept, unless a plan keeps them longer.
#[derive(Clone, Copy, Debug)]
pub struct PrunerSettings {
    /// Finished jobs and skips.
    pub history: Duration,
    /// Entries of the audit log.
    pub audit_log: Duration,
}

/// Removes what is older than is kept.
pub struct Pruner {
    context: Context,
    keep: PrunerSettings,
    plans: Arc<Plans>,
    /// Accounts whose plans keep less than others, and how long that is: still to be looked at.
    shorter: Vec<(AccountId, Duration)>,
}

impl Pruner {
    /// A pruner of what is over for longer than `keep` and the accounts' `plans` say.
    pub fn new(context: Context, keep: PrunerSettings, plans: Arc<Plans>) -> Self {
        let longest = plans.longest_history().unwrap_or_default();
        let PrunerSettings { history, audit_log } = keep;
        let keep =
            PrunerSettings { history: history.max(longest), audit_log: audit_log.max(longest) };
        Self { context, keep, plans, shorter: Vec::new() }
    }

    /// A batch of each kind, of all accounts. Returns how many there were of those of which there
    /// were most.
    async fn prune(&self, now: Timestamp) -> Result<u64, RunError> {
        let store = &self.context.store;
        store.prepare(now).await?;
        let removed = store.prune(now.minus(self.keep.history), BATCH).await?;
        let entries = store.prune_audit_log(now.minus(self.keep.audit_log), BATCH).await?;
        let answers = store.prune_answers(now.minus(ANSWERS_KEPT), BATCH).await?;
        let keys = store.prune_keys(now.minus(KEYS_KEPT), BATCH).await?;
        let Upkeep { jobs, skips, versions } = removed;
        let most = jobs.max(skips).max(versions).max(entries).max(answers).max(keys);
        if most > 0 {
            tracing::debug!(
                jobs,
                skips,
                versions,
                audit_log = entries,
                answers,
                keys,
                "pruned history"
            );
        }
        Ok(most.max(store.prune_logins(now, BATCH).await?))
    }

    /// The accounts whose plans keep less than others.
    async fn find_shorter(&self) -> Result<Vec<(AccountId, Duration)>, RunError> {
        let is_shorter = |history: &Duration| *history < self.keep.history.max(self.keep.audit_log);
        if !self.plans.all().filter_map(Plan::history).any(|history| is_shorter(&history)) {
            return Ok(Vec::new());
        }
        let accounts = self.context.store.accounts().await?;
        let shorter = accounts.into_iter().filter_map(|account| {
            let history = self.plans.named(&account.plan)?.history().filter(is_shorter)?;
            Some((account.id, history))
        });
        Ok(shorter.collect())
    }

    /// A batch of some of them. One that fails keeps no other waiting: it has its turn again.
    async fn prune_shorter(&mut self, now: Timestamp) {
        for _ in 0..ACCOUNTS {
            let Some((account, history)) = self.shorter.pop() else { break };
            let before = now.minus(history);
            let pruned = self.context.store.prune_account(account, before, BATCH).await;
            let pruned = pruned.unwrap_or_else(|error| {
                tracing::warn!(%account, %error, "the history of an account was not pruned");
                0
            });
            if pruned > 0 {
                tracing::debug!(%account, rows = pruned, "pruned the history of an account");
            }
            if pruned >= u64::from(BATCH) {
                self.shorter.push((account, history));
                break;
            }
        }
    }
}

#[async_trait]
impl Worker for Pruner {
    async fn run_once(&mut self, now: Timestamp) -> Result<Pause, RunError> {
        if self.shorter.is_empty() {
            if self.prune(now).await? >= u64::from(BATCH) {
                return Ok(Pause::For(BETWEEN));
            }
            self.shorter = self.find_shorter().await?;
        }
        self.prune_shorter(now).await;
        Ok(Pause::For(if self.shorter.is_empty() { EVERY } else { BETWEEN }))
    }
}
