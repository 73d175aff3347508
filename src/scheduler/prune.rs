//! Upkeep of history: room for the jobs to come, and the end of the old ones, in small batches.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Context;
use super::pace::rest;
use crate::domain::plan::Plans;
use crate::domain::{AccountId, Timestamp};
use crate::runtime::{Pause, RunError, Worker};
use crate::store::{self, ANSWERS_KEPT, DELIVERIES_KEPT, StoreError, Upkeep};

/// How often it looks for history that is over.
const EVERY: Duration = Duration::from_secs(600);
/// The least rest between batches, so that firing never waits long for a writer.
const BETWEEN: Duration = Duration::from_millis(200);
/// The most rows of a kind removed at once.
const BATCH: u32 = 500;

/// How many accounts of a plan are looked at in a round whose histories are shorter than others.
const ACCOUNTS: u32 = 20;
/// How often each of them is looked at: a plan counts days, and what is older than it keeps is not shown.
const SHORT_EVERY: Duration = Duration::from_hours(24);
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
    /// Accounts of shorter histories that could not be pruned since that of all was: they have their
    /// turn again after it.
    failed: HashSet<AccountId>,
    /// When the history of all accounts is pruned next, on the monotonic clock.
    next: Duration,
}

/// What a batch of each kind came to.
#[derive(Default)]
struct Round {
    /// How many rows there were of the kind of which there were most.
    most: u64,
    /// The first failure.
    failed: Option<StoreError>,
}

impl Round {
    /// Adds how many rows of a kind were removed, and returns it.
    fn add(&mut self, removed: store::Result<u64>) -> u64 {
        let rows = removed.unwrap_or_else(|error| {
            self.failed.get_or_insert(error);
            0
        });
        self.most = self.most.max(rows);
        rows
    }
}

impl Pruner {
    /// A pruner of what is over for longer than `keep` and the accounts' `plans` say.
    pub fn new(context: Context, keep: PrunerSettings, plans: Arc<Plans>) -> Self {
        let longest = plans.longest_history().unwrap_or_default();
        let PrunerSettings { history, audit_log } = keep;
        let keep =
            PrunerSettings { history: history.max(longest), audit_log: audit_log.max(longest) };
        Self { context, keep, plans, failed: HashSet::new(), next: Duration::ZERO }
    }

    /// A batch of each kind, of all accounts. One that fails keeps no other waiting.
    async fn prune(&self, now: Timestamp) -> Round {
        let store = &self.context.store;
        let mut round = Round::default();
        round.add(store.prepare(now).await.map(|()| 0));
        let history = store.prune(now.minus(self.keep.history), BATCH).await;
        let Upkeep { days, jobs, skips, versions } = history.unwrap_or_else(|error| {
            round.add(Err(error));
            Upkeep::default()
        });
        round.add(Ok(jobs.max(skips).max(versions)));
        let oldest_kept = now.minus(self.keep.audit_log);
        let audit_log = round.add(store.prune_audit_log(oldest_kept, BATCH).await);
        let answers = round.add(store.prune_answers(now.minus(ANSWERS_KEPT), BATCH).await);
        let keys = round.add(store.prune_keys(now.minus(KEYS_KEPT), BATCH).await);
        let secrets = round.add(store.prune_signing_secrets(now, BATCH).await);
        let alerts = round.add(store.prune_deliveries(now.minus(DELIVERIES_KEPT), BATCH).await);
        if round.most > 0 || days > 0 {
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
                "pruned history"
            );
        }
        round.add(store.prune_logins(now, BATCH).await);
        round
    }

    /// The plans that keep less than others, and how long that is.
    fn shorter(&self) -> Vec<(String, Duration)> {
        let longest = self.keep.history.max(self.keep.audit_log);
        let shorter = self.plans.all().filter_map(|plan| {
            let history = plan.history().filter(|history| *history < longest)?;
            Some((plan.name.clone(), history))
        });
        shorter.collect()
    }

    /// A batch of each of some accounts whose histories are shorter; says whether there may be more. One
    /// that fails keeps no other waiting.
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

    /// A batch of an account; says whether there may be more of it.
    async fn prune_one(&mut self, account: AccountId, before: Timestamp, now: Timestamp) -> bool {
        match self.context.store.prune_account(account, before, now, BATCH).await {
            Ok(rows) => {
                if rows > 0 {
                    tracing::debug!(%account, rows, "pruned the history of an account");
                }
                rows >= u64::from(BATCH)
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
impl Worker for Pruner {
    /// In turn: a batch of the history of all when its time has come, and then one of some accounts whose
    /// histories are shorter, so that neither keeps the other waiting.
    async fn run_once(&mut self, now: Timestamp) -> Result<Pause, RunError> {
        let clock = self.context.clock.clone();
        let began = clock.monotonic();
        let mut failed = None;
        if began >= self.next {
            let round = self.prune(now).await;
            failed = round.failed;
            self.failed.clear();
            // What fails is tried again soon.
            if round.most < u64::from(BATCH) && failed.is_none() {
                self.next = began + EVERY;
            }
        }
        let more = self.prune_shorter(now).await?;
        match failed {
            Some(error) => Err(error.into()),
            None if more || self.next <= began => {
                Ok(Pause::For(rest(clock.monotonic().saturating_sub(began), BETWEEN)))
            }
            None => Ok(Pause::For(self.next.saturating_sub(clock.monotonic()))),
        }
    }
}
