//! Fences accounts: a leader cannot fire what it read of an account before the account changed.

use crate::domain::AccountId;
use crate::domain::shard::ShardId;
use crate::store::postgres::PostgresStore;
use crate::store::sql::connection::access::Access;
use crate::store::{CHANGES_KEPT, Result, StoreErrorKind, sql};

/// After this many failed shards the server counts as unavailable. Shards whose row is locked do
/// not count.
const FAILURES_UNTIL_UNAVAILABLE: usize = 2;

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
        let lock = sql::query("SELECT FROM accounts WHERE id = $1 FOR UPDATE").bind(id);
        self.api.execute(operation, 1, lock).await?;
        Ok(())
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
        let shards = sql::query_scalar("SELECT shard FROM shards ORDER BY shard");
        let shards: Vec<ShardId> = self.api.scalars(operation, shards).await?;
        let (mut fenced, mut failed) = (Ok(()), 0);
        for shard in shards {
            let fence = sql::query(FENCE).bind(shard).bind(id).bind(i32::from(CHANGES_KEPT));
            if let Err(error) = self.api.execute(operation, 1, fence).await {
                failed += usize::from(error.kind() != StoreErrorKind::Locked);
                fenced = fenced.and(Err(error));
            }
            if failed == FAILURES_UNTIL_UNAVAILABLE {
                break;
            }
        }
        fenced
    }
}
