//! Writes take turns, so whoever changes accounts has nobody to wait for.

use super::Connection;
use super::error::Outcome;
use crate::domain::AccountId;
use crate::store::CHANGES_KEPT;

/// `false` if there is no such account.
pub(super) async fn lock(connection: &mut Connection, id: AccountId) -> Outcome<bool> {
    let known = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM accounts WHERE id = ?1)");
    Ok(known.bind(id).fetch_one(connection).await?)
}

/// How an account is kept as it is by those who do something to what it has: nobody else writes.
pub(super) const BESIDE: &str = "";
/// The same by those who do it one after the other.
pub(super) const IN_TURN: &str = "";

/// The account comes first among those that were changed last.
const FENCE: &str = "
    UPDATE shards SET suspensions = suspensions + 1, changed = (
        SELECT json_group_array(account)
        FROM (SELECT hex(?1) AS account UNION ALL SELECT value FROM json_each(changed) LIMIT ?2))";

/// What leaders have read of the account before does not fire.
pub(super) async fn fence_change(connection: &mut Connection, id: AccountId) -> Outcome<()> {
    sqlx::query(FENCE).bind(id).bind(CHANGES_KEPT).execute(connection).await?;
    Ok(())
}

/// What a statement that removes rows does with those that somebody holds: there are none.
pub(super) const PASSING: &str = "";
