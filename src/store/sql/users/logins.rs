//! Passwords, sessions and resets of users, within a transaction.

use super::statements::{
    ACCOUNTS_OF, CONFIRM_EMAIL, DELETE_RESETS, END_OTHERS, END_SESSION, END_SESSIONS,
    EXTEND_SESSION, INSERT_RESET, INSERT_SESSION, REHASH_PASSWORD, RESET, SET_PASSWORD,
};
use crate::domain::audit::Action;
use crate::domain::token::TokenDigest;
use crate::domain::{AccountId, SessionId, Timestamp, UserId};
use crate::store::sql;
use crate::store::sql::audit;
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::error::SqlResult;
use crate::store::{
    AuditContext, INSTALLATION, NewReset, NewSession, PasswordHash, SessionEnding, WriteContext,
};

/// Records a change of a user in the audit log of each account that the user belongs to, or of the
/// installation if there is none.
pub(super) async fn enter(
    connection: &mut Connection<'_>,
    audit_context: AuditContext,
    action: Action,
    user: UserId,
) -> SqlResult<()> {
    let query = sql::query_scalar(ACCOUNTS_OF).bind(user);
    let mut accounts: Vec<AccountId> = query.fetch_all(&mut *connection).await?;
    if accounts.is_empty() {
        accounts.push(INSTALLATION);
    }
    for (nth, account) in accounts.into_iter().enumerate() {
        let write =
            WriteContext { entry: audit_context.entry.nth(nth), ..audit_context.on(account) };
        audit::record(connection, write, action, [user]).await?;
    }
    Ok(())
}

pub(in crate::store) async fn set_password(
    connection: &mut Connection<'_>,
    audit_context: AuditContext,
    (user, version): (UserId, Option<i64>),
    password: PasswordHash,
    keep: Option<SessionId>,
) -> SqlResult<bool> {
    let set = sql::query(SET_PASSWORD).bind(user).bind(password.0).bind(version);
    if set.execute(&mut *connection).await? == 0 {
        return Ok(false);
    }
    sql::query(DELETE_RESETS).bind(user).execute(&mut *connection).await?;
    end(connection, user, keep.map_or(SessionEnding::All, SessionEnding::AllBut)).await?;
    enter(connection, audit_context, Action::UserPasswordSet, user).await?;
    Ok(true)
}

pub(in crate::store) async fn rehash_password(
    connection: &mut Connection<'_>,
    user: UserId,
    version: i64,
    password: PasswordHash,
) -> SqlResult<()> {
    let query = sql::query(REHASH_PASSWORD).bind(user).bind(version).bind(password.0);
    query.run(connection).await
}

pub(in crate::store) async fn create_session(
    connection: &mut Connection<'_>,
    now: Timestamp,
    session: NewSession,
) -> SqlResult<bool> {
    lock_user(connection, session.user).await?;
    let made = sql::query(INSERT_SESSION)
        .bind(session.id)
        .bind(session.user)
        .bind(session.password_version)
        .bind(session.digest.0.to_vec())
        .bind(now)
        .bind(session.expires_at)
        .bind(session.ends_at)
        .execute(connection)
        .await?;
    Ok(made > 0)
}

pub(in crate::store) async fn extend_session(
    connection: &mut Connection<'_>,
    now: Timestamp,
    id: SessionId,
    expires_at: Timestamp,
) -> SqlResult<()> {
    let query = sql::query(EXTEND_SESSION).bind(id).bind(now).bind(expires_at);
    query.run(connection).await
}

pub(in crate::store) async fn end_sessions(
    connection: &mut Connection<'_>,
    audit_context: AuditContext,
    user: UserId,
    which: SessionEnding,
) -> SqlResult<()> {
    let ended = end(connection, user, which).await?;
    if ended > 0 && !matches!(which, SessionEnding::One(_)) {
        enter(connection, audit_context, Action::UserSignedOut, user).await?;
    }
    Ok(())
}

/// Ends sessions and returns their number.
pub(super) async fn end(
    connection: &mut Connection<'_>,
    user: UserId,
    which: SessionEnding,
) -> SqlResult<u64> {
    let query = match which {
        SessionEnding::One(id) => sql::query(END_SESSION).bind(user).bind(id),
        SessionEnding::AllBut(id) => sql::query(END_OTHERS).bind(user).bind(id),
        SessionEnding::All => sql::query(END_SESSIONS).bind(user),
    };
    query.execute(connection).await
}

pub(in crate::store) async fn create_reset(
    connection: &mut Connection<'_>,
    now: Timestamp,
    reset: NewReset,
) -> SqlResult<bool> {
    lock_user(connection, reset.user).await?;
    sql::query(DELETE_RESETS).bind(reset.user).execute(&mut *connection).await?;
    let made = sql::query(INSERT_RESET)
        .bind(reset.id)
        .bind(reset.user)
        .bind(reset.digest.0.to_vec())
        .bind(now)
        .bind(reset.expires_at)
        .execute(connection)
        .await?;
    Ok(made > 0)
}

pub(in crate::store) async fn complete_reset(
    connection: &mut Connection<'_>,
    audit_context: AuditContext,
    digest: TokenDigest,
    password: PasswordHash,
) -> SqlResult<Option<UserId>> {
    let user: Option<UserId> = sql::query_scalar(RESET)
        .bind(digest.0.to_vec())
        .bind(audit_context.now)
        .fetch_optional(&mut *connection)
        .await?;
    let Some(user) = user else { return Ok(None) };
    lock_user(connection, user).await?;
    // It may have been used or revoked while this transaction waited for the user's row.
    let query = sql::query_scalar::<UserId>(RESET).bind(digest.0.to_vec()).bind(audit_context.now);
    if query.fetch_optional(connection).await?.is_none() {
        return Ok(None);
    }
    // The link of a reset is sent to the address.
    confirm(connection, user, audit_context.now).await?;
    Ok(set_password(connection, audit_context, (user, None), password, None).await?.then_some(user))
}

/// Records that the address is the user's. Returns `false` if that is recorded already, or if there
/// is no such user.
pub(super) async fn confirm(
    connection: &mut Connection<'_>,
    user: UserId,
    now: Timestamp,
) -> SqlResult<bool> {
    Ok(sql::query(CONFIRM_EMAIL).bind(user).bind(now).execute(connection).await? > 0)
}

/// Locks a user, so that the password does not change while it is used to create a session or a
/// reset.
pub(super) async fn lock_user(connection: &mut Connection<'_>, user: UserId) -> SqlResult<()> {
    if connection.dialect() == Dialect::Postgres {
        let query = "SELECT 1 FROM users WHERE id = $1 FOR UPDATE";
        let _locked: Option<i32> =
            sql::query_scalar(query).bind(user).fetch_optional(connection).await?;
    }
    Ok(())
}
