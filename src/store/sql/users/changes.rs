//! Changes of users, within a transaction.
//!
//! A change of the rows that depend on a user locks the user's row first; a change of an account's
//! members locks the account's row. In PostgreSQL, the statements that follow see the rows that
//! earlier transactions committed.

use super::logins::{confirm, end, enter};
use super::statements::{
    ADD_MEMBER, DELETE_INVITATION, DELETE_RESETS, DELETE_USER, DISABLE_USER, HAS_USER,
    INSERT_INVITATION, INSERT_USER, INVITATIONS_FOR, INVITED, MEMBER_ROLE, OTHER_OWNERS,
    REMOVE_MEMBER, REPLACE_INVITATIONS, SET_OPERATOR, SET_ROLE, SET_TIME_DISPLAY, USE_INVITATION,
};
use crate::domain::audit::Action;
use crate::domain::token::TokenDigest;
use crate::domain::user::{Role, TimeDisplay};
use crate::domain::{AccountId, InvitationId, MembershipId, Timestamp, UserId};
use crate::store::encryption::encrypted_fields::EncryptedFields;
use crate::store::sql;
use crate::store::sql::account_lock::lock;
use crate::store::sql::accounts::insert_account;
use crate::store::sql::audit;
use crate::store::sql::connection::Connection;
use crate::store::sql::error::SqlResult;
use crate::store::sql::signing;
use crate::store::{
    AuditContext, INSTALLATION, JoinedAccount, MemberChange, MemberChanged, NewInvitation, NewUser,
    SessionEnding, UserCreated, WriteContext,
};

/// Creates the user before the membership, because the most frequent failure is that the address is
/// taken. If the user cannot join, the user is deleted again.
pub(in crate::store) async fn create_user(
    connection: &mut Connection<'_>,
    encrypted_fields: EncryptedFields,
    audit_context: AuditContext,
    user: NewUser,
    joins: JoinedAccount,
) -> SqlResult<UserCreated> {
    let new_account = joins.new_account();
    if let JoinedAccount::Invited(digest) = &joins
        && !is_invited(connection, audit_context.now, *digest, &user).await?
    {
        return Ok(UserCreated::NoSuchInvitation);
    }
    let made = sql::query(INSERT_USER)
        .bind(user.id)
        .bind(user.email.as_str().to_owned())
        .bind(user.password.0)
        .bind(audit_context.now)
        .bind(user.is_confirmed.then_some(audit_context.now))
        .execute(&mut *connection)
        .await?;
    if made == 0 {
        return Ok(UserCreated::EmailTaken);
    }
    let joined = join(connection, audit_context, user.id, joins).await?;
    if joined != UserCreated::Created {
        sql::query(DELETE_USER).bind(user.id).execute(connection).await?;
    } else if let Some((account, created_at)) = new_account {
        signing::make_first(connection, &encrypted_fields, account, created_at).await?;
    }
    Ok(joined)
}

/// Returns `true` if the invitation with this digest is for the user's address.
async fn is_invited(
    connection: &mut Connection<'_>,
    now: Timestamp,
    digest: TokenDigest,
    user: &NewUser,
) -> SqlResult<bool> {
    let query = sql::query_scalar(INVITED).bind(digest.0.to_vec()).bind(now);
    query.bind(user.email.as_str().to_owned()).fetch_one(connection).await
}

async fn join(
    connection: &mut Connection<'_>,
    audit_context: AuditContext,
    user: UserId,
    joins: JoinedAccount,
) -> SqlResult<UserCreated> {
    match joins {
        JoinedAccount::Nothing => {
            let write = audit_context.on(INSTALLATION);
            audit::record(connection, write, Action::UserCreated, [user]).await?;
            Ok(UserCreated::Created)
        }
        JoinedAccount::New(account) => {
            let id = account.id;
            if !insert_account(connection, account).await? {
                return Ok(UserCreated::NameTaken);
            }
            add_member(connection, audit_context.now, (id, user, Role::Owner)).await?;
            audit::record(connection, audit_context.on(id), Action::AccountCreated, [id]).await?;
            Ok(UserCreated::Created)
        }
        JoinedAccount::Existing(account, role) => {
            if !add_member(connection, audit_context.now, (account, user, role)).await? {
                return Ok(UserCreated::NoSuchAccount);
            }
            audit::record(connection, audit_context.on(account), Action::MemberAdded, [user])
                .await?;
            Ok(UserCreated::Created)
        }
        JoinedAccount::Invited(digest) => {
            let account = accept_invitation(connection, audit_context, user, digest).await?;
            Ok(account.map_or(UserCreated::NoSuchInvitation, |_| UserCreated::Created))
        }
        JoinedAccount::InvitedByAddress => accept_all(connection, audit_context, user).await,
    }
}

/// Accepts all invitations to the user's address.
async fn accept_all(
    connection: &mut Connection<'_>,
    audit_context: AuditContext,
    user: UserId,
) -> SqlResult<UserCreated> {
    let query = sql::query_scalar(INVITATIONS_FOR).bind(audit_context.now).bind(user);
    let digests: Vec<Vec<u8>> = query.fetch_all(&mut *connection).await?;
    let mut created = UserCreated::NoSuchInvitation;
    for (nth, digest) in digests.iter().enumerate() {
        let Ok(digest) = <[u8; 32]>::try_from(&digest[..]) else { continue };
        let entry = audit_context.entry.nth(nth);
        let audit_context = AuditContext { entry, ..audit_context };
        let digest = TokenDigest(digest);
        if accept_invitation(connection, audit_context, user, digest).await?.is_some() {
            created = UserCreated::Created;
        }
    }
    Ok(created)
}

/// Adds a member. Returns `false` if the user is a member already, or the account or the user does
/// not exist.
async fn add_member(
    connection: &mut Connection<'_>,
    now: Timestamp,
    (account, user, role): (AccountId, UserId, Role),
) -> SqlResult<bool> {
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
    audit_context: AuditContext,
    user: UserId,
    digest: TokenDigest,
) -> SqlResult<Option<AccountId>> {
    let used: Option<(AccountId, Role, InvitationId)> = sql::query_as(USE_INVITATION)
        .bind(digest.0.to_vec())
        .bind(audit_context.now)
        .bind(user)
        .fetch_optional(&mut *connection)
        .await?;
    let Some((account, role, id)) = used else { return Ok(None) };
    // The link of an invitation is sent to the address.
    confirm(connection, user, audit_context.now).await?;
    add_member(connection, audit_context.now, (account, user, role)).await?;
    audit::record(connection, audit_context.on(account), Action::InvitationAccepted, [id]).await?;
    Ok(Some(account))
}

pub(in crate::store) async fn disable_user(
    connection: &mut Connection<'_>,
    audit_context: AuditContext,
    user: UserId,
    disabled: bool,
) -> SqlResult<bool> {
    let set = sql::query(DISABLE_USER).bind(user).bind(disabled.then_some(audit_context.now));
    if set.execute(&mut *connection).await? == 0 {
        return sql::query_scalar(HAS_USER).bind(user).fetch_one(connection).await;
    }
    if disabled {
        sql::query(DELETE_RESETS).bind(user).execute(&mut *connection).await?;
        end(connection, user, SessionEnding::All).await?;
    }
    let action = if disabled { Action::UserDisabled } else { Action::UserEnabled };
    enter(connection, audit_context, action, user).await?;
    Ok(true)
}

pub(in crate::store) async fn confirm_email(
    connection: &mut Connection<'_>,
    audit_context: AuditContext,
    user: UserId,
) -> SqlResult<bool> {
    if !confirm(connection, user, audit_context.now).await? {
        return sql::query_scalar(HAS_USER).bind(user).fetch_one(connection).await;
    }
    enter(connection, audit_context, Action::UserEmailConfirmed, user).await?;
    Ok(true)
}

pub(in crate::store) async fn set_operator(
    connection: &mut Connection<'_>,
    audit_context: AuditContext,
    user: UserId,
    is_operator: bool,
) -> SqlResult<bool> {
    let set = sql::query(SET_OPERATOR).bind(user).bind(is_operator.then_some(audit_context.now));
    if set.execute(&mut *connection).await? == 0 {
        return sql::query_scalar(HAS_USER).bind(user).fetch_one(connection).await;
    }
    let action = if is_operator { Action::OperatorAdded } else { Action::OperatorRemoved };
    audit::record(connection, audit_context.on(INSTALLATION), action, [user]).await?;
    Ok(true)
}

pub(in crate::store) async fn set_time_display(
    connection: &mut Connection<'_>,
    audit_context: AuditContext,
    user: UserId,
    TimeDisplay { zone, has_12_hour_clock }: TimeDisplay,
) -> SqlResult<bool> {
    let set = sql::query(SET_TIME_DISPLAY).bind(user).bind(zone.map(|zone| zone.name().to_owned()));
    if set.bind(has_12_hour_clock).execute(&mut *connection).await? == 0 {
        return sql::query_scalar(HAS_USER).bind(user).fetch_one(connection).await;
    }
    enter(connection, audit_context, Action::UserTimeDisplaySet, user).await?;
    Ok(true)
}

pub(in crate::store) async fn change_member(
    connection: &mut Connection<'_>,
    write: WriteContext,
    user: UserId,
    change: MemberChange,
) -> SqlResult<MemberChanged> {
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
) -> SqlResult<Option<Role>> {
    let query = sql::query_scalar(MEMBER_ROLE).bind(account).bind(user);
    query.fetch_optional(connection).await
}

async fn has_other_owner(
    connection: &mut Connection<'_>,
    account: AccountId,
    user: UserId,
) -> SqlResult<bool> {
    let query = sql::query_scalar(OTHER_OWNERS).bind(account).bind(user);
    let others: i64 = query.fetch_one(connection).await?;
    Ok(others > 0)
}

pub(in crate::store) async fn create_invitation(
    connection: &mut Connection<'_>,
    write: WriteContext,
    invitation: NewInvitation,
) -> SqlResult<bool> {
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
) -> SqlResult<bool> {
    let query = sql::query(DELETE_INVITATION).bind(write.account).bind(id);
    if query.execute(&mut *connection).await? == 0 {
        return Ok(false);
    }
    audit::record(connection, write, Action::InvitationTakenBack, [id]).await?;
    Ok(true)
}
