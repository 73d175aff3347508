//! Who changes users does it one after the other.

use super::Connection;
use super::error::Outcome;
use crate::domain::{AccountId, UserId};

/// The owners of an account do not change meanwhile.
pub(super) async fn lock_account(connection: &mut Connection, account: AccountId) -> Outcome<()> {
    let query = sqlx::query("SELECT FROM accounts WHERE id = $1 FOR NO KEY UPDATE").bind(account);
    query.execute(connection).await?;
    Ok(())
}

/// A password does not change while a session or a reset is made by it.
pub(super) async fn lock_user(connection: &mut Connection, user: UserId) -> Outcome<()> {
    let query = sqlx::query("SELECT FROM users WHERE id = $1 FOR UPDATE").bind(user);
    query.execute(connection).await?;
    Ok(())
}
