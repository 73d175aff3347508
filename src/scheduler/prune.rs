//! Upkeep of history: room for the jobs to come, and the end of the old ones, in small batches.

use std::time::Duration;

use async_trait::async_trait;

use super::Context;
use crate::domain::Timestamp;
use crate::runtime::{Pause, RunError, Worker};
use crate::store::ANSWERS_KEPT;

/// How often it looks for history that is over.
const EVERY: Duration = Duration::from_secs(600);
/// The rest between batches, so that firing never waits long for a writer.
const BETWEEN: Duration = Duration::from_millis(200);
/// The most rows of a kind removed at once.
const BATCH: u32 = 500;

/// How long things are kept.
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
}

impl Pruner {
    /// A pruner of what is over for longer than it is kept.
    pub fn new(context: Context, keep: PrunerSettings) -> Self {
        Self { context, keep }
    }
}

#[async_trait]
impl Worker for Pruner {
    async fn run_once(&mut self, now: Timestamp) -> Result<Pause, RunError> {
        self.context.store.prepare(now).await?;
        let store = &self.context.store;
        let removed = store.prune(now.minus(self.keep.history), BATCH).await?;
        let entries = store.prune_audit_log(now.minus(self.keep.audit_log), BATCH).await?;
        let answers = store.prune_answers(now.minus(ANSWERS_KEPT), BATCH).await?;
        let most = removed.jobs.max(removed.skips).max(removed.versions).max(entries).max(answers);
        if most > 0 {
            let (jobs, skips, versions) = (removed.jobs, removed.skips, removed.versions);
            tracing::debug!(jobs, skips, versions, audit_log = entries, answers, "pruned history");
        }
        let most = most.max(self.context.store.prune_logins(now, BATCH).await?);
        Ok(Pause::For(if most < u64::from(BATCH) { EVERY } else { BETWEEN }))
    }
}
