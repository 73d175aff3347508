//! Locks on accounts, and the check that an account may change.

use sqlx::AssertSqlSafe;

use crate::domain::{AccountId, Timestamp};
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::{CHANGES_KEPT, StoreErrorKind, sql};

/// Locks an account, so that only one transaction at a time counts and adds its objects. Returns
/// `false` if there is no such account. In PostgreSQL, the statements that follow see the rows that
/// earlier transactions added.
pub(in crate::store) async fn lock(
    connection: &mut Connection<'_>,
    id: AccountId,
) -> SqlResult<bool> {
    let lock = connection.dialect().exclusive_lock();
    let query = AssertSqlSafe(format!("SELECT 1 FROM accounts WHERE id = $1 {lock}"));
    let found: Option<i32> = sql::query_scalar(query).bind(id).fetch_optional(connection).await?;
    Ok(found.is_some())
}

/// Makes the definitions of an account stale that leaders have read before, within the transaction
/// that changes the account.
///
/// SQLite only. A PostgreSQL leader would wait for the account's row, so the adapter fences each
/// shard separately, after the transaction.
pub(in crate::store) async fn fence_change(
    connection: &mut Connection<'_>,
    id: AccountId,
) -> SqlResult<()> {
    if connection.dialect() == Dialect::Sqlite {
        sql::query(FENCE).bind(id).bind(i32::from(CHANGES_KEPT)).execute(connection).await?;
    }
    Ok(())
}

/// Puts the account first in each shard's list of the accounts that were changed last.
const FENCE: &str = "
    UPDATE shards SET suspensions = suspensions + 1, changed = (
        SELECT json_group_array(account)
        FROM (SELECT hex($1) AS account UNION ALL SELECT value FROM json_each(changed) LIMIT $2))";

/// Admits work on the rows of an account, unless the account is suspended or deleted. `locking` is
/// the locking clause. A later suspension or deletion returns only after this transaction has
/// ended, so it happens completely after the work.
pub(in crate::store) async fn admit(
    connection: &mut Connection<'_>,
    account: AccountId,
    locking: &str,
) -> SqlResult<()> {
    let query = format!("SELECT suspended_at FROM accounts WHERE id = $1 {locking}");
    let query = sql::query_scalar(AssertSqlSafe(query)).bind(account);
    judge(query.fetch_optional(connection).await?)
}

/// Admits work like [`admit`] that adds `count` rows of an account to a table and, if `most` limits
/// them, counts those that are there. Returns their number if the new ones would exceed the limit.
///
/// A transaction that counts takes the exclusive lock, so that concurrent ones count one after the
/// other.
pub(in crate::store) async fn admit_more(
    connection: &mut Connection<'_>,
    account: AccountId,
    table: &'static str,
    count: usize,
    most: Option<u64>,
) -> SqlResult<Option<u64>> {
    let dialect = connection.dialect();
    let Some(most) = most else {
        admit(connection, account, dialect.shared_lock()).await?;
        return Ok(None);
    };
    admit(connection, account, dialect.exclusive_lock()).await?;
    let query = AssertSqlSafe(format!("SELECT count(*) FROM {table} WHERE account_id = $1"));
    let current: i64 = sql::query_scalar(query).bind(account).fetch_one(connection).await?;
    let current = current.unsigned_abs();
    Ok((current + count as u64 > most).then_some(current))
}

/// Returns an error if an account is suspended or deleted. `found` is the column `suspended_at` of
/// its row, if there is one.
pub(in crate::store) fn judge(found: Option<Option<Timestamp>>) -> SqlResult<()> {
    match found {
        Some(None) => Ok(()),
        Some(Some(since)) => {
            let said = format!("the account is suspended since {since}");
            Err(SqlError::new(StoreErrorKind::Suspended, said))
        }
        None => Err(SqlError::new(StoreErrorKind::NoSuchAccount, "the account is gone")),
    }
}
