//! The identities of users.

use async_trait::async_trait;

use super::changes;
use super::logins::{end, enter, lock_user};
use super::statements::{
    DELETE_IDENTITIES, DELETE_IDENTITY, HAS_CONFIRMED_EMAIL, HAS_IDENTITY, HAS_USER,
    IDENTITY_OWNER, IDENTITY_USER, INSERT_IDENTITY,
};
use crate::domain::audit::Action;
use crate::domain::{IdentityId, UserId};
use crate::store::encryption::encrypted_fields::EncryptedFields;
use crate::store::sql;
use crate::store::sql::connection::Connection;
use crate::store::sql::connection::access::{Access, Database, call};
use crate::store::sql::error::SqlResult;
use crate::store::{
    AuditContext, Identity, IdentityLink, IdentityStore, JoinedAccount, NewUser, Result,
    SessionEnding, User, UserCreated,
};

#[async_trait]
impl<D: Database> IdentityStore for D {
    async fn identity_user(&self, identity: &Identity) -> Result<Option<User>> {
        let Identity { issuer, subject } = identity.clone();
        let query = sql::query_as(IDENTITY_USER).bind(IdentityId::of(&issuer, &subject));
        self.api().optional("identity_user", query.bind(issuer).bind(subject)).await
    }

    async fn link_identity(
        &self,
        audit_context: &AuditContext,
        user: UserId,
        identity: &Identity,
    ) -> Result<IdentityLink> {
        let link = call(link, (*audit_context, user, identity.clone()));
        self.api().transaction("link_identity", link).await
    }

    async fn unlink_identities(&self, audit_context: &AuditContext, user: UserId) -> Result<bool> {
        self.api().transaction("unlink_identities", call(unlink, (*audit_context, user))).await
    }

    async fn create_identity_user(
        &self,
        audit_context: &AuditContext,
        user: &NewUser,
        identity: &Identity,
        joins: &JoinedAccount,
    ) -> Result<UserCreated> {
        let encrypted_fields = self.encrypted_fields().clone();
        let (user, identity) = (user.clone(), identity.clone());
        let new = (encrypted_fields, *audit_context, user, identity, joins.clone());
        self.api().transaction("create_identity_user", call(create, new)).await
    }
}

async fn insert(
    connection: &mut Connection<'_>,
    audit_context: AuditContext,
    user: UserId,
    Identity { issuer, subject }: Identity,
) -> SqlResult<bool> {
    let inserted = sql::query(INSERT_IDENTITY)
        .bind(IdentityId::of(&issuer, &subject))
        .bind(user)
        .bind(issuer)
        .bind(subject)
        .bind(audit_context.now)
        .execute(connection)
        .await?;
    Ok(inserted > 0)
}

async fn link(
    connection: &mut Connection<'_>,
    audit_context: AuditContext,
    user: UserId,
    identity: Identity,
) -> SqlResult<IdentityLink> {
    lock_user(connection, user).await?;
    let query = sql::query_scalar(HAS_CONFIRMED_EMAIL).bind(user);
    let is_confirmed: Option<bool> = query.fetch_optional(&mut *connection).await?;
    let Some(is_confirmed) = is_confirmed else { return Ok(IdentityLink::NoSuchUser) };
    let id = IdentityId::of(&identity.issuer, &identity.subject);
    let owner: Option<UserId> =
        sql::query_scalar(IDENTITY_OWNER).bind(id).fetch_optional(&mut *connection).await?;
    if let Some(owner) = owner {
        let is_own = owner == user;
        return Ok(if is_own { IdentityLink::Linked } else { IdentityLink::OtherUser });
    }
    if !is_confirmed {
        return Ok(IdentityLink::Unconfirmed);
    }
    let query = sql::query_scalar(HAS_IDENTITY).bind(user).bind(identity.issuer.clone());
    if query.fetch_one(&mut *connection).await? {
        return Ok(IdentityLink::OtherIdentity);
    }
    if !insert(connection, audit_context, user, identity).await? {
        // A concurrent call has created a user for the person.
        return Ok(IdentityLink::OtherUser);
    }
    enter(connection, audit_context, Action::UserIdentityLinked, user).await?;
    Ok(IdentityLink::Linked)
}

async fn unlink(
    connection: &mut Connection<'_>,
    audit_context: AuditContext,
    user: UserId,
) -> SqlResult<bool> {
    lock_user(connection, user).await?;
    if sql::query(DELETE_IDENTITIES).bind(user).execute(&mut *connection).await? == 0 {
        return sql::query_scalar(HAS_USER).bind(user).fetch_one(connection).await;
    }
    end(connection, user, SessionEnding::All).await?;
    enter(connection, audit_context, Action::UserIdentitiesUnlinked, user).await?;
    Ok(true)
}

/// Creates the identity before the user. If the user cannot be created, the identity is deleted
/// again.
async fn create(
    connection: &mut Connection<'_>,
    encrypted_fields: EncryptedFields,
    audit_context: AuditContext,
    user: NewUser,
    identity: Identity,
    joins: JoinedAccount,
) -> SqlResult<UserCreated> {
    let id = IdentityId::of(&identity.issuer, &identity.subject);
    if !insert(connection, audit_context, user.id, identity).await? {
        return Ok(UserCreated::IdentityTaken);
    }
    let created =
        changes::create_user(connection, encrypted_fields, audit_context, user, joins).await?;
    if created != UserCreated::Created {
        sql::query(DELETE_IDENTITY).bind(id).execute(connection).await?;
    }
    Ok(created)
}
