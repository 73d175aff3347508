//! Who adds to what an account has does it one after the other.

use sqlx::PgConnection;

use super::error::Outcome;
use crate::domain::AccountId;

/// Locks an account, so that what it has can be counted and added to by one at a time. A statement
/// of its own: the next one sees what the others have added before. `false` if there is none.
pub(super) async fn lock(connection: &mut PgConnection, id: AccountId) -> Outcome<bool> {
    let query = sqlx::query("SELECT FROM accounts WHERE id = $1 FOR NO KEY UPDATE");
    Ok(query.bind(id).fetch_optional(connection).await?.is_some())
}
