//! Changes of users, within a transaction.
//!
//! A change of the rows that depend on a user locks the user's row first; a change of an account's
//! members locks the account's row. In PostgreSQL, the statements that follow see the rows that
//! earlier transactions committed.

use super::logins::{end, enter};
use super::statements::{
    ADD_MEMBER, DELETE_INVITATION, DELETE_RESETS, DELETE_USER, DISABLE_USER, HAS_USER,
    INSERT_INVITATION, INSERT_USER, INVITED, MEMBER_ROLE, OTHER_OWNERS, REMOVE_MEMBER,
    REPLACE_INVITATIONS, SET_ROLE, USE_INVITATION,
};
use crate::domain::audit::Action;
use crate::domain::token::TokenDigest;
use crate::domain::user::Role;
use crate::domain::{AccountId, InvitationId, MembershipId, Timestamp, UserId};
use crate::store::sql;
use crate::store::sql::account_lock::lock;
use crate::store::sql::accounts::insert_account;
use crate::store::sql::audit;
use crate::store::sql::connection::Connection;
use crate::store::sql::fault::Outcome;
use crate::store::{
    AuditContext, Ending, INSTALLATION, Joins, MemberChange, MemberChanged, NewInvitation, NewUser,
    UserCreated, WriteContext,
};

/// Creates the user before the membership, because the most frequent failure is that the address is
/// taken. If the user cannot join, the user is deleted again.
pub(in crate::store) async fn create_user(
    connection: &mut Connection<'_>,
    act: AuditContext,
    user: NewUser,
    joins: Joins,
) -> Outcome<UserCreated> {
    if let Joins::Invited(digest) = &joins
        && !is_invited(connection, act.now, *digest, &user).await?
    {
        return Ok(UserCreated::NoSuchInvitation);
    }
    let made = sql::query(INSERT_USER)
        .bind(user.id)
        .bind(user.email.as_str().to_owned())
        .bind(user.password.0)
        .bind(act.now)
        .execute(&mut *connection)
        .await?;
    if made == 0 {
        return Ok(UserCreated::EmailTaken);
    }
    let joined = join(connection, act, user.id, joins).await?;
    if joined != UserCreated::Created {
        sql::query(DELETE_USER).bind(user.id).execute(connection).await?;
    }
    Ok(joined)
}

/// Returns `true` if the invitation with this digest is for the user's address.
async fn is_invited(
    connection: &mut Connection<'_>,
    now: Timestamp,
    digest: TokenDigest,
    user: &NewUser,
) -> Outcome<bool> {
    let query = sql::query_scalar(INVITED).bind(digest.0.to_vec()).bind(now);
    query.bind(user.email.as_str().to_owned()).fetch_one(connection).await
}

async fn join(
    connection: &mut Connection<'_>,
    act: AuditContext,
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

/// Adds a member. Returns `false` if the user is a member already, or the account or the user does
/// not exist.
async fn add_member(
    connection: &mut Connection<'_>,
    now: Timestamp,
    (account, user, role): (AccountId, UserId, Role),
) -> Outcome<bool> {
    let added = sql::query(ADD_MEMBER)
        .bind(MembershipId::of(account, user))
        .bind(account)
        .bind(user)
        .bind(role)
        .bind(now)
        .execute(connection)
        .await?;
    Ok(added > 0)
}

pub(in crate::store) async fn accept_invitation(
    connection: &mut Connection<'_>,
    act: AuditContext,
    user: UserId,
    digest: TokenDigest,
) -> Outcome<Option<AccountId>> {
    let used: Option<(AccountId, Role, InvitationId)> = sql::query_as(USE_INVITATION)
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

pub(in crate::store) async fn disable_user(
    connection: &mut Connection<'_>,
    act: AuditContext,
    user: UserId,
    disabled: bool,
) -> Outcome<bool> {
    let set = sql::query(DISABLE_USER).bind(user).bind(disabled.then_some(act.now));
    if set.execute(&mut *connection).await? == 0 {
        return sql::query_scalar(HAS_USER).bind(user).fetch_one(connection).await;
    }
    if disabled {
        sql::query(DELETE_RESETS).bind(user).execute(&mut *connection).await?;
        end(connection, user, Ending::All).await?;
    }
    let action = if disabled { Action::UserDisabled } else { Action::UserEnabled };
    enter(connection, act, action, user).await?;
    Ok(true)
}

pub(in crate::store) async fn change_member(
    connection: &mut Connection<'_>,
    write: WriteContext,
    user: UserId,
    change: MemberChange,
) -> Outcome<MemberChanged> {
    let account = write.account;
    lock(connection, account).await?;
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
            let query = sql::query(SET_ROLE).bind(account).bind(user).bind(role);
            (query, Action::MemberRoleSet)
        }
        MemberChange::Remove => {
            let query = sql::query(REMOVE_MEMBER).bind(account).bind(user);
            (query, Action::MemberRemoved)
        }
    };
    query.execute(&mut *connection).await?;
    audit::record(connection, write, action, [user]).await?;
    Ok(MemberChanged::Done)
}

async fn role(
    connection: &mut Connection<'_>,
    account: AccountId,
    user: UserId,
) -> Outcome<Option<Role>> {
    let query = sql::query_scalar(MEMBER_ROLE).bind(account).bind(user);
    query.fetch_optional(connection).await
}

async fn has_other_owner(
    connection: &mut Connection<'_>,
    account: AccountId,
    user: UserId,
) -> Outcome<bool> {
    let query = sql::query_scalar(OTHER_OWNERS).bind(account).bind(user);
    let others: i64 = query.fetch_one(connection).await?;
    Ok(others > 0)
}

pub(in crate::store) async fn create_invitation(
    connection: &mut Connection<'_>,
    write: WriteContext,
    invitation: NewInvitation,
) -> Outcome<bool> {
    let email = invitation.email.as_str().to_owned();
    let made = sql::query(INSERT_INVITATION)
        .bind(invitation.id)
        .bind(write.account)
        .bind(email.clone())
        .bind(invitation.role)
        .bind(invitation.digest.0.to_vec())
        .bind(write.now)
        .bind(invitation.expires_at)
        .execute(&mut *connection)
        .await?;
    sql::query(REPLACE_INVITATIONS)
        .bind(write.account)
        .bind(email)
        .bind(invitation.id)
        .execute(&mut *connection)
        .await?;
    if made == 0 {
        return Ok(false);
    }
    audit::record(connection, write, Action::InvitationCreated, [invitation.id]).await?;
    Ok(true)
}

pub(in crate::store) async fn delete_invitation(
    connection: &mut Connection<'_>,
    write: WriteContext,
    id: InvitationId,
) -> Outcome<bool> {
    let query = sql::query(DELETE_INVITATION).bind(write.account).bind(id);
    if query.execute(&mut *connection).await? == 0 {
        return Ok(false);
    }
    audit::record(connection, write, Action::InvitationTakenBack, [id]).await?;
    Ok(true)
}
