//! What deleted accounts had goes, in small batches.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;

use super::Context;
use super::pace::rest;
use crate::domain::shard::ShardId;
use crate::domain::{AccountId, ScheduleId, Timestamp};
use crate::queue::{Changes, Member};
use crate::runtime::{Pause, RunError, Worker};
use crate::store::{DeletedAccount, DeletedPlace};

/// How often it looks for deleted accounts.
const EVERY: Duration = Duration::from_secs(5);
/// The least rest between batches, so that firing never waits long for a writer.
const BETWEEN: Duration = Duration::from_millis(100);
/// The most rows of a kind removed at once.
const BATCH: u32 = 500;
/// The most accounts of which a batch is removed in a round.
const ACCOUNTS: u32 = 20;
/// How often it is told how far it is.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Removes what deleted accounts had. Any replica does it; one that dies leaves the rest to others.
pub struct Eraser {
    context: Context,
    /// What this replica has removed of accounts that are not gone yet, and when it last said so.
    removed: HashMap<AccountId, (u64, Timestamp)>,
    /// The last account of the round before: accounts that are empty and not settled yet, or whose
    /// rows are locked, must not keep those behind them waiting.
    after: Option<DeletedPlace>,
}

impl Eraser {
    /// An eraser of the accounts of a store.
    pub fn new(context: Context) -> Self {
        Self { context, removed: HashMap::new(), after: None }
    }

    /// A batch of an account; says whether there was something.
    async fn erase(&mut self, account: &DeletedAccount, now: Timestamp) -> Result<bool, RunError> {
        let erased = self.context.store.erase(account.id, now, BATCH).await?;
        self.forget(account.id, &erased.schedules).await;
        let DeletedAccount { id, name, .. } = account;
        let (removed, told_at) = self.removed.entry(*id).or_insert((0, Timestamp::default()));
        *removed += erased.rows;
        if erased.gone {
            let (by, deleted_at) = (&account.actor, account.deleted_at);
            tracing::info!(account = %id, name, by, %deleted_at, rows = *removed, "a deleted account is gone");
            self.removed.remove(id);
        } else if erased.rows > 0 && now.since(*told_at) >= TOLD_EVERY {
            *told_at = now;
            tracing::info!(account = %id, name, rows = *removed, "removing a deleted account");
        }
        Ok(erased.rows > 0)
    }

    /// Tells the leaders, so that the due index forgets them now and not when they come up.
    async fn forget(&self, account: AccountId, schedules: &[(ShardId, ScheduleId)]) {
        let mut of_shards: HashMap<ShardId, Vec<Member>> = HashMap::new();
        for (shard, schedule) in schedules {
            of_shards.entry(*shard).or_default().push(Member { schedule: *schedule, account });
        }
        for (shard, schedules) in of_shards {
            if let Err(error) = self.context.queue.hint(shard, &Changes::of(schedules)).await {
                tracing::warn!(%error, "a leader was not told of schedules that are gone");
            }
        }
    }
}

#[async_trait]
impl Worker for Eraser {
    async fn run_once(&mut self, now: Timestamp) -> Result<Pause, RunError> {
        let began = self.context.clock.monotonic();
        let going = self.context.store.going_accounts(self.after, ACCOUNTS).await?;
        let has_next_page = going.len() == ACCOUNTS as usize;
        self.after = going.last().filter(|_| has_next_page).map(DeletedAccount::place);
        let (mut more, mut failed) = (has_next_page, None);
        for account in &going {
            match self.erase(account, now).await {
                Ok(removed) => more |= removed,
                // Rows that somebody holds keep the other accounts' from nothing.
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let took = self.context.clock.monotonic().saturating_sub(began);
        Ok(Pause::For(if more { rest(took, BETWEEN) } else { EVERY }))
    }
}
