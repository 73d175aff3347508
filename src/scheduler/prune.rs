//! Upkeep of history: room for the jobs to come, and the end of the old ones, in small batches.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Context;
use super::pace::rest;
use crate::domain::plan::{Plan, Plans};
use crate::domain::{AccountId, Timestamp};
use crate::runtime::{Pause, RunError, Worker};
use crate::store::{self, ANSWERS_KEPT, DELIVERIES_KEPT, StoreError, Upkeep};

/// How often it looks for history that is over.
const EVERY: Duration = Duration::from_secs(600);
/// The least rest between batches, so that firing never waits long for a writer.
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
    /// When it looked for them last.
    looked_at: Timestamp,
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
        Self { context, keep, plans, shorter: Vec::new(), looked_at: Timestamp::default() }
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

    /// The accounts whose plans keep less than others.
    async fn find_shorter(&self) -> store::Result<Vec<(AccountId, Duration)>> {
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
        let clock = self.context.clock.clone();
        let began = clock.monotonic();
        let rested = || Pause::For(rest(clock.monotonic().saturating_sub(began), BETWEEN));
        let mut failed = None;
        if self.shorter.is_empty() {
            let round = self.prune(now).await;
            failed = round.failed;
            if round.most >= u64::from(BATCH) {
                return failed.map_or(Ok(rested()), |error| Err(error.into()));
            }
            // What fails is tried again soon; looking through the accounts has its own time.
            if now.since(self.looked_at) >= EVERY {
                self.shorter = self.find_shorter().await?;
                self.looked_at = now;
            }
        }
        self.prune_shorter(now).await;
        match failed {
            Some(error) => Err(error.into()),
            None if self.shorter.is_empty() => Ok(Pause::For(EVERY)),
            None => Ok(rested()),
        }
    }
}
