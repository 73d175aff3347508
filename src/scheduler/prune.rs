//! Upkeep of history: room for the jobs to come, and the end of the old ones, in small batches.

use std::time::Duration;

use async_trait::async_trait;

use super::Context;
use crate::domain::Timestamp;
use crate::runtime::{Pause, RunError, Worker};

/// How often it looks for history that is over.
const EVERY: Duration = Duration::from_secs(600);
/// The rest between batches, so that firing never waits long for a writer.
const BETWEEN: Duration = Duration::from_millis(200);
/// The most rows of a kind removed at once.
const BATCH: u32 = 500;

/// Removes jobs and skips that are older than is kept, and sessions, invitations and the like that
/// have expired.
pub struct Pruner {
    context: Context,
    keep: Duration,
}

impl Pruner {
    /// A pruner of what ended more than `keep` ago.
    pub fn new(context: Context, keep: Duration) -> Self {
        Self { context, keep }
    }
}

#[async_trait]
impl Worker for Pruner {
    async fn run_once(&mut self, now: Timestamp) -> Result<Pause, RunError> {
        self.context.store.prepare(now).await?;
        let removed = self.context.store.prune(now.minus(self.keep), BATCH).await?;
        let most = removed.jobs.max(removed.skips).max(removed.versions);
        if most > 0 {
            let (jobs, skips) = (removed.jobs, removed.skips);
            tracing::debug!(jobs, skips, versions = removed.versions, "pruned history");
        }
        let most = most.max(self.context.store.prune_logins(now, BATCH).await?);
        Ok(Pause::For(if most < u64::from(BATCH) { EVERY } else { BETWEEN }))
    }
}
