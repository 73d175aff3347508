//! Deletes the data of deleted accounts, in small batches.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;

use super::SchedulerContext;
use super::batch_limits::AccountBatches;
use super::pace::pause;
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, ScheduleId, Timestamp};
use crate::queue::{OwnedSchedule, ShardChanges};
use crate::runtime::{LoopPause, RunError, Worker};
use crate::store::{DeletedAccount, DeletedPosition};

/// The time between searches for deleted accounts.
const EVERY: Duration = Duration::from_secs(5);
/// The minimum pause between batches, so that firing never waits long for a writer.
const BETWEEN: Duration = Duration::from_millis(100);
/// The maximum number of rows of one kind that are deleted at once.
const BATCH: u32 = 500;
/// The maximum number of accounts in a pass, with one batch each.
const ACCOUNTS: u32 = 20;
/// The minimum time between two log lines about the progress of an account.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Deletes the data of deleted accounts. Any replica does this. If one dies, the others continue.
pub struct AccountEraser {
    context: SchedulerContext,
    /// The number of rows that this replica has deleted of each unfinished account, and the time of
    /// the last log line about it.
    removed: HashMap<AccountId, (u64, Timestamp)>,
    /// The last account of the previous pass. The next pass starts after it, so that accounts
    /// that are empty and not settled yet, or whose rows are locked, do not delay those behind
    /// them.
    after: Option<DeletedPosition>,
    batches: AccountBatches,
}

impl AccountEraser {
    /// An eraser of the deleted accounts of a store.
    pub fn new(context: SchedulerContext) -> Self {
        let batches = AccountBatches::new(BATCH);
        Self { context, removed: HashMap::new(), after: None, batches }
    }

    /// Deletes one batch of an account. Returns `true` if there was something to delete.
    async fn erase(&mut self, account: &DeletedAccount, now: Timestamp) -> Result<bool, RunError> {
        let limit = self.batches.limit(account.id);
        let erased = self.context.store.erase(account.id, now, limit).await;
        self.batches.adapt(account.id, &erased);
        let erased = erased?;
        self.forget(account.id, &erased.schedules).await;
        let DeletedAccount { id, name, .. } = account;
        let (removed, logged_at) = self.removed.entry(*id).or_insert((0, Timestamp::default()));
        *removed += erased.rows;
        if erased.gone {
            let (by, deleted_at) = (&account.actor, account.deleted_at);
            tracing::info!(account = %id, name, by, %deleted_at, rows = *removed, "erased account");
            self.removed.remove(id);
            self.batches.forget(*id);
        } else if erased.rows > 0 && now.since(*logged_at) >= LOG_EVERY {
            *logged_at = now;
            tracing::info!(account = %id, name, rows = *removed, "erasing account");
        }
        Ok(erased.rows > 0)
    }

    /// Sends hints to the leaders, so that the due indexes drop the schedules now and not when they
    /// are due.
    async fn forget(&self, account: AccountId, schedules: &[(ShardId, ScheduleId)]) {
        let mut of_shards: HashMap<ShardId, Vec<OwnedSchedule>> = HashMap::new();
        for (shard, schedule) in schedules {
            of_shards
                .entry(*shard)
                .or_default()
                .push(OwnedSchedule { schedule: *schedule, account });
        }
        for (shard, schedules) in of_shards {
            if let Err(error) = self.context.queue.hint(shard, &ShardChanges::of(schedules)).await {
                tracing::warn!(%error, "a leader was not notified of deleted schedules");
            }
        }
    }
}

#[async_trait]
impl Worker for AccountEraser {
    async fn run_once(&mut self, now: Timestamp) -> Result<LoopPause, RunError> {
        let began = self.context.clock.monotonic();
        let going = self.context.store.accounts_to_erase(self.after, ACCOUNTS).await?;
        let has_next_page = going.len() == ACCOUNTS as usize;
        self.after = going.last().filter(|_| has_next_page).map(DeletedAccount::position);
        let (mut more, mut failed) = (has_next_page, None);
        for account in &going {
            match self.erase(account, now).await {
                Ok(removed) => more |= removed,
                // Locked rows of one account do not stop the deletion of the others.
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let took = self.context.clock.monotonic().saturating_sub(began);
        Ok(LoopPause::For(if more { pause(took, BETWEEN) } else { EVERY }))
    }
}
