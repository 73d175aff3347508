//! Who adds to what an account has does it one after the other.

use std::future::{Future, ready};

use sqlx::PgConnection;

use super::error::Outcome;
use super::{PostgresStore, Within};
use crate::domain::AccountId;
use crate::domain::shard::ShardId;
use crate::store::{CHANGES_KEPT, Result, StoreErrorKind};

/// After how many shards that fail the server is taken to be away, so that nobody waits for it shard
/// by shard. Those whose row somebody holds do not count.
const AWAY: usize = 2;

/// Locks an account, so that what it has can be counted and added to by one at a time. A statement
/// of its own: the next one sees what the others have added before. `false` if there is none.
pub(super) async fn lock(connection: &mut PgConnection, id: AccountId) -> Outcome<bool> {
    let query = sqlx::query("SELECT FROM accounts WHERE id = $1 FOR NO KEY UPDATE");
    Ok(query.bind(id).fetch_optional(connection).await?.is_some())
}

/// How an account is kept as it is by those who do something to what it has: beside each other.
pub(super) const BESIDE: &str = "FOR KEY SHARE";
/// The same by those who do it one after the other, as with [`lock`].
pub(super) const IN_TURN: &str = "FOR NO KEY UPDATE";

/// Leaders are not waited for while the account is held: see [`PostgresStore::fence_shards`].
pub(super) fn fence_change(
    _: &mut PgConnection,
    _: AccountId,
) -> impl Future<Output = Outcome<()>> {
    ready(Ok(()))
}

/// What a statement that removes rows does with those that somebody holds.
pub(super) const PASSING: &str = "FOR UPDATE SKIP LOCKED";

/// The account comes first among those that were changed last.
const FENCE: &str = "
    UPDATE shards SET suspensions = suspensions + 1, changed = ($2::uuid || changed)[1:$3]
    WHERE shard = $1";

impl PostgresStore {
    /// Waits for those who have begun to do something to what an account has before it was suspended.
    /// After that is committed: whoever begins now is refused, so that they come to an end.
    pub(super) async fn drain(&self, operation: &'static str, id: AccountId) -> Result<()> {
        let drained = self.api.run(operation, Within::Statement, move |connection| {
            let query = sqlx::query("SELECT FROM accounts WHERE id = $1 FOR UPDATE").bind(id);
            Box::pin(async move {
                query.execute(connection).await?;
                Ok(())
            })
        });
        drained.await
    }

    /// What leaders have read of the account before does not fire: each is waited for, and reads anew. One shard
    /// after the other, in a transaction of its own, so that no shard waits for the leader of another.
    /// Who suspended an account or changed its plan and was told so, or calls again, knows that it is
    /// done.
    ///
    /// # Errors
    /// The first one: the shards that follow are fenced all the same.
    pub(super) async fn fence_shards(&self, operation: &'static str, id: AccountId) -> Result<()> {
        let shards = self.api.run(operation, Within::Statement, |connection| {
            let query = sqlx::query_scalar("SELECT shard FROM shards ORDER BY shard");
            Box::pin(async move { Ok(query.fetch_all(connection).await?) })
        });
        let shards: Vec<ShardId> = shards.await?;
        let (mut fenced, mut others) = (Ok(()), 0);
        for shard in shards {
            let done = self.api.run(operation, Within::Statement, move |connection| {
                let query = sqlx::query(FENCE).bind(shard).bind(id).bind(i32::from(CHANGES_KEPT));
                Box::pin(async move {
                    query.execute(connection).await?;
                    Ok(())
                })
            });
            if let Err(error) = done.await {
                others += usize::from(error.kind() != StoreErrorKind::Locked);
                fenced = fenced.and(Err(error));
            }
            if others == AWAY {
                break;
            }
        }
        fenced
    }
}
