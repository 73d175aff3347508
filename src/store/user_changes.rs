//! Changes of users, within a transaction, of both adapters: each has this file as a module of its
//! own, and beside it says in `user_locks` how rows are locked.
//!
//! Whoever changes what depends on a user locks the user's row first; whoever changes who belongs
//! to an account, the account's row. A statement that follows sees what the one before has waited
//! for.

use sqlx::AssertSqlSafe;

use super::account_changes::insert_account;
use super::account_lock::PASSING;
use super::error::Outcome;
use super::user_locks::{lock_account, lock_user};
use super::{Connection, audit};
use crate::domain::audit::Action;
use crate::domain::token::TokenDigest;
use crate::domain::user::Role;
use crate::domain::{AccountId, InvitationId, MembershipId, SessionId, Timestamp, UserId};
use crate::store::user_rows::{
    self, ACCOUNTS_OF, ADD_MEMBER, DELETE_INVITATION, DELETE_RESETS, DELETE_USER, DISABLE_USER,
    END_OTHERS, END_SESSION, END_SESSIONS, EXTEND_SESSION, HAS_USER, INSERT_INVITATION,
    INSERT_RESET, INSERT_SESSION, INSERT_USER, INVITED, MEMBER_ROLE, OTHER_OWNERS, REHASH_PASSWORD,
    REMOVE_MEMBER, REPLACE_INVITATIONS, RESET, SET_PASSWORD, SET_ROLE, USE_INVITATION,
};
use crate::store::{
    Act, Ending, INSTALLATION, Joins, MemberChange, MemberChanged, NewInvitation, NewReset,
    NewSession, NewUser, PasswordHash, UserCreated, Write,
};

/// The user first, since most often it is the address that is taken; what cannot be joined takes
/// the user away again.
pub(super) async fn create_user(
    connection: &mut Connection,
    act: Act,
    user: NewUser,
    joins: Joins,
) -> Outcome<UserCreated> {
    if let Joins::Invited(digest) = &joins
        && !is_invited(connection, act.now, *digest, &user).await?
    {
        return Ok(UserCreated::NoSuchInvitation);
    }
    let made = sqlx::query(INSERT_USER)
        .bind(user.id)
        .bind(user.email.as_str().to_owned())
        .bind(user.password.0)
        .bind(act.now)
        .execute(&mut *connection)
        .await?;
    if made.rows_affected() == 0 {
        return Ok(UserCreated::EmailTaken);
    }
    let joined = join(connection, act, user.id, joins).await?;
    if joined != UserCreated::Created {
        sqlx::query(DELETE_USER).bind(user.id).execute(connection).await?;
    }
    Ok(joined)
}

/// Whether the invitation with this digest is for the user's address.
async fn is_invited(
    connection: &mut Connection,
    now: Timestamp,
    digest: TokenDigest,
    user: &NewUser,
) -> Outcome<bool> {
    let query = sqlx::query_scalar(INVITED).bind(digest.0.to_vec()).bind(now);
    Ok(query.bind(user.email.as_str().to_owned()).fetch_one(connection).await?)
}

async fn join(
    connection: &mut Connection,
    act: Act,
    user: UserId,
    joins: Joins,
) -> Outcome<UserCreated> {
    match joins {
        Joins::Nothing => {
            let write = act.on(INSTALLATION);
            audit::record(connection, write, Action::UserCreated, [user]).await?;
            Ok(UserCreated::Created)
        }
        Joins::New(account) => {
            let id = account.id;
            if !insert_account(connection, account).await? {
                return Ok(UserCreated::NameTaken);
            }
            add_member(connection, act.now, (id, user, Role::Owner)).await?;
            audit::record(connection, act.on(id), Action::AccountCreated, [id]).await?;
            Ok(UserCreated::Created)
        }
        Joins::Existing(account, role) => {
            if !add_member(connection, act.now, (account, user, role)).await? {
                return Ok(UserCreated::NoSuchAccount);
            }
            audit::record(connection, act.on(account), Action::MemberAdded, [user]).await?;
            Ok(UserCreated::Created)
        }
        Joins::Invited(digest) => {
            let account = accept_invitation(connection, act, user, digest).await?;
            Ok(account.map_or(UserCreated::NoSuchInvitation, |_| UserCreated::Created))
        }
    }
}

/// Whether the user was no member before.
async fn add_member(
    connection: &mut Connection,
    now: Timestamp,
    (account, user, role): (AccountId, UserId, Role),
) -> Outcome<bool> {
    let added = sqlx::query(ADD_MEMBER)
        .bind(MembershipId::of(account, user))
        .bind(account)
        .bind(user)
        .bind(role)
        .bind(now)
        .execute(connection)
        .await?;
    Ok(added.rows_affected() > 0)
}

pub(super) async fn accept_invitation(
    connection: &mut Connection,
    act: Act,
    user: UserId,
    digest: TokenDigest,
) -> Outcome<Option<AccountId>> {
    let used: Option<(AccountId, Role, InvitationId)> = sqlx::query_as(USE_INVITATION)
        .bind(digest.0.to_vec())
        .bind(act.now)
        .bind(user)
        .fetch_optional(&mut *connection)
        .await?;
    let Some((account, role, id)) = used else { return Ok(None) };
    add_member(connection, act.now, (account, user, role)).await?;
    audit::record(connection, act.on(account), Action::InvitationAccepted, [id]).await?;
    Ok(Some(account))
}

/// Enters a change of a user for each account that the user belongs to; for the installation if there
/// is none.
async fn enter(connection: &mut Connection, act: Act, action: Action, user: UserId) -> Outcome<()> {
    let query = sqlx::query_scalar(ACCOUNTS_OF).bind(user);
    let mut accounts: Vec<AccountId> = query.fetch_all(&mut *connection).await?;
    if accounts.is_empty() {
        accounts.push(INSTALLATION);
    }
    for (nth, account) in accounts.into_iter().enumerate() {
        let write = Write { entry: act.entry.nth(nth), ..act.on(account) };
        audit::record(connection, write, action, [user]).await?;
    }
    Ok(())
}

pub(super) async fn set_password(
    connection: &mut Connection,
    act: Act,
    (user, version): (UserId, Option<i64>),
    password: PasswordHash,
    keep: Option<SessionId>,
) -> Outcome<bool> {
    let set = sqlx::query(SET_PASSWORD).bind(user).bind(password.0).bind(version);
    if set.execute(&mut *connection).await?.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query(DELETE_RESETS).bind(user).execute(&mut *connection).await?;
    end(connection, user, keep.map_or(Ending::All, Ending::AllBut)).await?;
    enter(connection, act, Action::UserPasswordSet, user).await?;
    Ok(true)
}

pub(super) async fn rehash_password(
    connection: &mut Connection,
    user: UserId,
    version: i64,
    password: PasswordHash,
) -> Outcome<()> {
    let query = sqlx::query(REHASH_PASSWORD).bind(user).bind(version).bind(password.0);
    query.execute(connection).await?;
    Ok(())
}

pub(super) async fn disable_user(
    connection: &mut Connection,
    act: Act,
    user: UserId,
    disabled: bool,
) -> Outcome<bool> {
    let set = sqlx::query(DISABLE_USER).bind(user).bind(disabled.then_some(act.now));
    if set.execute(&mut *connection).await?.rows_affected() == 0 {
        return Ok(sqlx::query_scalar(HAS_USER).bind(user).fetch_one(connection).await?);
    }
    if disabled {
        sqlx::query(DELETE_RESETS).bind(user).execute(&mut *connection).await?;
        end(connection, user, Ending::All).await?;
    }
    let action = if disabled { Action::UserDisabled } else { Action::UserEnabled };
    enter(connection, act, action, user).await?;
    Ok(true)
}

pub(super) async fn change_member(
    connection: &mut Connection,
    write: Write,
    user: UserId,
    change: MemberChange,
) -> Outcome<MemberChanged> {
    let account = write.account;
    lock_account(connection, account).await?;
    let Some(role) = role(connection, account, user).await? else {
        let MemberChange::Add(role) = change else { return Ok(MemberChanged::NoSuchMember) };
        if !add_member(connection, write.now, (account, user, role)).await? {
            return Ok(MemberChanged::NoSuchMember);
        }
        audit::record(connection, write, Action::MemberAdded, [user]).await?;
        return Ok(MemberChanged::Done);
    };
    let stays_owner = matches!(change, MemberChange::Add(_) | MemberChange::Set(Role::Owner));
    if role == Role::Owner && !stays_owner && !has_other_owner(connection, account, user).await? {
        return Ok(MemberChanged::LastOwner);
    }
    let (query, action) = match change {
        MemberChange::Add(_) => return Ok(MemberChanged::Done),
        MemberChange::Set(same) if same == role => return Ok(MemberChanged::Done),
        MemberChange::Set(role) => {
            let query = sqlx::query(SET_ROLE).bind(account).bind(user).bind(role);
            (query, Action::MemberRoleSet)
        }
        MemberChange::Remove => {
            let query = sqlx::query(REMOVE_MEMBER).bind(account).bind(user);
            (query, Action::MemberRemoved)
        }
    };
    query.execute(&mut *connection).await?;
    audit::record(connection, write, action, [user]).await?;
    Ok(MemberChanged::Done)
}

async fn role(
    connection: &mut Connection,
    account: AccountId,
    user: UserId,
) -> Outcome<Option<Role>> {
    let query = sqlx::query_scalar(MEMBER_ROLE).bind(account).bind(user);
    Ok(query.fetch_optional(connection).await?)
}

async fn has_other_owner(
    connection: &mut Connection,
    account: AccountId,
    user: UserId,
) -> Outcome<bool> {
    let query = sqlx::query_scalar(OTHER_OWNERS).bind(account).bind(user);
    let others: i64 = query.fetch_one(connection).await?;
    Ok(others > 0)
}

pub(super) async fn create_invitation(
    connection: &mut Connection,
    write: Write,
    invitation: NewInvitation,
) -> Outcome<bool> {
    let email = invitation.email.as_str().to_owned();
    let made = sqlx::query(INSERT_INVITATION)
        .bind(invitation.id)
        .bind(write.account)
        .bind(email.clone())
        .bind(invitation.role)
        .bind(invitation.digest.0.to_vec())
        .bind(write.now)
        .bind(invitation.expires_at)
        .execute(&mut *connection)
        .await?;
    sqlx::query(REPLACE_INVITATIONS)
        .bind(write.account)
        .bind(email)
        .bind(invitation.id)
        .execute(&mut *connection)
        .await?;
    if made.rows_affected() == 0 {
        return Ok(false);
    }
    audit::record(connection, write, Action::InvitationCreated, [invitation.id]).await?;
    Ok(true)
}

pub(super) async fn delete_invitation(
    connection: &mut Connection,
    write: Write,
    id: InvitationId,
) -> Outcome<bool> {
    let query = sqlx::query(DELETE_INVITATION).bind(write.account).bind(id);
    if query.execute(&mut *connection).await?.rows_affected() == 0 {
        return Ok(false);
    }
    audit::record(connection, write, Action::InvitationTakenBack, [id]).await?;
    Ok(true)
}

pub(super) async fn create_session(
    connection: &mut Connection,
    now: Timestamp,
    session: NewSession,
) -> Outcome<bool> {
    lock_user(connection, session.user).await?;
    let made = sqlx::query(INSERT_SESSION)
        .bind(session.id)
        .bind(session.user)
        .bind(session.password_version)
        .bind(session.digest.0.to_vec())
        .bind(now)
        .bind(session.expires_at)
        .bind(session.ends_at)
        .execute(connection)
        .await?;
    Ok(made.rows_affected() > 0)
}

pub(super) async fn extend_session(
    connection: &mut Connection,
    now: Timestamp,
    id: SessionId,
    expires_at: Timestamp,
) -> Outcome<()> {
    let query = sqlx::query(EXTEND_SESSION).bind(id).bind(now).bind(expires_at);
    query.execute(connection).await?;
    Ok(())
}

pub(super) async fn end_sessions(
    connection: &mut Connection,
    act: Act,
    user: UserId,
    which: Ending,
) -> Outcome<()> {
    let ended = end(connection, user, which).await?;
    if ended > 0 && !matches!(which, Ending::One(_)) {
        enter(connection, act, Action::UserSignedOut, user).await?;
    }
    Ok(())
}

/// Returns how many have ended.
async fn end(connection: &mut Connection, user: UserId, which: Ending) -> Outcome<u64> {
    let query = match which {
        Ending::One(id) => sqlx::query(END_SESSION).bind(user).bind(id),
        Ending::AllBut(id) => sqlx::query(END_OTHERS).bind(user).bind(id),
        Ending::All => sqlx::query(END_SESSIONS).bind(user),
    };
    Ok(query.execute(connection).await?.rows_affected())
}

pub(super) async fn create_reset(
    connection: &mut Connection,
    now: Timestamp,
    reset: NewReset,
) -> Outcome<bool> {
    lock_user(connection, reset.user).await?;
    sqlx::query(DELETE_RESETS).bind(reset.user).execute(&mut *connection).await?;
    let made = sqlx::query(INSERT_RESET)
        .bind(reset.id)
        .bind(reset.user)
        .bind(reset.digest.0.to_vec())
        .bind(now)
        .bind(reset.expires_at)
        .execute(connection)
        .await?;
    Ok(made.rows_affected() > 0)
}

pub(super) async fn complete_reset(
    connection: &mut Connection,
    act: Act,
    digest: TokenDigest,
    password: PasswordHash,
) -> Outcome<Option<UserId>> {
    let user: Option<UserId> = sqlx::query_scalar(RESET)
        .bind(digest.0.to_vec())
        .bind(act.now)
        .fetch_optional(&mut *connection)
        .await?;
    let Some(user) = user else { return Ok(None) };
    lock_user(connection, user).await?;
    // It may have been used up, or taken back, while the user was waited for.
    let query = sqlx::query(RESET).bind(digest.0.to_vec()).bind(act.now);
    if query.fetch_optional(&mut *connection).await?.is_none() {
        return Ok(None);
    }
    Ok(set_password(connection, act, (user, None), password, None).await?.then_some(user))
}

pub(super) async fn prune(connection: &mut Connection, now: Timestamp, limit: u32) -> Outcome<u64> {
    let mut most = 0;
    for query in user_rows::prune(PASSING) {
        let query = sqlx::query(AssertSqlSafe(query)).bind(now).bind(i64::from(limit));
        most = most.max(query.execute(&mut *connection).await?.rows_affected());
    }
    Ok(most)
}
