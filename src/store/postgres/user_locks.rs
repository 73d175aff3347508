//! Who changes users does it one after the other.

use super::error::Outcome;
use super::{Connection, account_lock};
use crate::domain::{AccountId, UserId};

/// The owners of an account do not change meanwhile.
pub(super) async fn lock_account(connection: &mut Connection, account: AccountId) -> Outcome<()> {
    account_lock::lock(connection, account).await.map(drop)
}

/// A password does not change while a session or a reset is made by it.
pub(super) async fn lock_user(connection: &mut Connection, user: UserId) -> Outcome<()> {
    let query = sqlx::query("SELECT FROM users WHERE id = $1 FOR UPDATE").bind(user);
    query.execute(connection).await?;
    Ok(())
}
