//! Fences accounts: a leader cannot fire what it read of an account before the account changed.

use crate::domain::AccountId;
use crate::domain::shard::ShardId;
use crate::store::postgres::{PostgresStore, Within};
use crate::store::{CHANGES_KEPT, Result, StoreErrorKind};

/// After this many failed shards the server counts as unavailable. Shards whose row is locked do
/// not count.
const AWAY: usize = 2;

/// Puts the account first in the list of the accounts that were changed last.
const FENCE: &str = "
    UPDATE shards SET suspensions = suspensions + 1, changed = ($2::uuid || changed)[1:$3]
    WHERE shard = $1";

impl PostgresStore {
    /// Waits for the transactions that admitted work for an account before it was suspended. The
    /// caller has committed the suspension: later transactions are refused, so the wait ends.
    pub(in crate::store::postgres) async fn drain(
        &self,
        operation: &'static str,
        id: AccountId,
    ) -> Result<()> {
        let drained = self.api.run(operation, Within::Statement, move |connection| {
            let query = sqlx::query("SELECT FROM accounts WHERE id = $1 FOR UPDATE").bind(id);
            Box::pin(async move {
                query.execute(connection).await?;
                Ok(())
            })
        });
        drained.await
    }

    /// Waits for the leader of each shard, and makes it read the account again. Each shard has a
    /// transaction of its own, so that no shard waits for the leader of another one.
    ///
    /// # Errors
    /// The first failure. The shards after it are fenced all the same, unless the server counts as
    /// unavailable.
    pub(in crate::store::postgres) async fn fence_shards(
        &self,
        operation: &'static str,
        id: AccountId,
    ) -> Result<()> {
        let shards = self.api.run(operation, Within::Statement, |connection| {
            let query = sqlx::query_scalar("SELECT shard FROM shards ORDER BY shard");
            Box::pin(async move { Ok(query.fetch_all(connection).await?) })
        });
        let shards: Vec<ShardId> = shards.await?;
        let (mut fenced, mut failed) = (Ok(()), 0);
        for shard in shards {
            let done = self.api.run(operation, Within::Statement, move |connection| {
                let query = sqlx::query(FENCE).bind(shard).bind(id).bind(i32::from(CHANGES_KEPT));
                Box::pin(async move {
                    query.execute(connection).await?;
                    Ok(())
                })
            });
            if let Err(error) = done.await {
                failed += usize::from(error.kind() != StoreErrorKind::Locked);
                fenced = fenced.and(Err(error));
            }
            if failed == AWAY {
                break;
            }
        }
        fenced
    }
}
