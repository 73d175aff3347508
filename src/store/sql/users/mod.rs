//! Users, their memberships, and their sessions, invitations and resets.

mod changes;
mod identities;
mod logins;
pub(in crate::store) mod statements;

use async_trait::async_trait;

use crate::domain::token::TokenDigest;
use crate::domain::user::{EmailAddress, Role, TimeDisplay};
use crate::domain::{AccountId, InvitationId, SessionId, Timestamp, UserId};
use crate::store::sql;
use crate::store::sql::connection::access::{Access, Database, call};
use crate::store::sql::history::old_rows::{OldRows, prune};
use crate::store::{
    AccountMember, AuditContext, Invitation, JoinedAccount, MemberChange, MemberChanged,
    Membership, NewInvitation, NewReset, NewSession, NewUser, PasswordHash, Result, Session,
    SessionEnding, User, UserCreated, UserStore, WriteContext,
};
use statements::{
    INVITATIONS, MEMBERS, MEMBERSHIPS, RESET, ROLE, SESSION, SESSIONS, USER, USER_NAMED, USERS,
};

#[async_trait]
impl<D: Database> UserStore for D {
    async fn create_user(
        &self,
        audit_context: &AuditContext,
        user: &NewUser,
        joins: &JoinedAccount,
    ) -> Result<UserCreated> {
        let encrypted_fields = self.encrypted_fields().clone();
        let new = (encrypted_fields, *audit_context, user.clone(), joins.clone());
        self.api().transaction("create_user", call(changes::create_user, new)).await
    }

    async fn user(&self, id: UserId) -> Result<Option<User>> {
        self.api().optional("user", sql::query_as(USER).bind(id)).await
    }

    async fn user_named(&self, email: &EmailAddress) -> Result<Option<User>> {
        let query = sql::query_as(USER_NAMED).bind(email.as_str().to_owned());
        self.api().optional("user_named", query).await
    }

    async fn users(&self) -> Result<Vec<User>> {
        self.api().all("users", sql::query_as(USERS)).await
    }

    async fn set_password(
        &self,
        audit_context: &AuditContext,
        user: UserId,
        version: Option<i64>,
        password: &PasswordHash,
        keep: Option<SessionId>,
    ) -> Result<bool> {
        let new = (*audit_context, (user, version), password.clone(), keep);
        self.api().transaction("set_password", call(logins::set_password, new)).await
    }

    async fn rehash_password(
        &self,
        user: UserId,
        version: i64,
        password: &PasswordHash,
    ) -> Result<()> {
        let rehash = call(logins::rehash_password, (user, version, password.clone()));
        self.api().transaction("rehash_password", rehash).await
    }

    async fn disable_user(
        &self,
        audit_context: &AuditContext,
        user: UserId,
        disabled: bool,
    ) -> Result<bool> {
        let disable = call(changes::disable_user, (*audit_context, user, disabled));
        self.api().transaction("disable_user", disable).await
    }

    async fn confirm_email(&self, audit_context: &AuditContext, user: UserId) -> Result<bool> {
        let confirm = call(changes::confirm_email, (*audit_context, user));
        self.api().transaction("confirm_email", confirm).await
    }

    async fn set_operator(
        &self,
        audit_context: &AuditContext,
        user: UserId,
        is_operator: bool,
    ) -> Result<bool> {
        let set = call(changes::set_operator, (*audit_context, user, is_operator));
        self.api().transaction("set_operator", set).await
    }

    async fn set_time_display(
        &self,
        audit_context: &AuditContext,
        user: UserId,
        display: TimeDisplay,
    ) -> Result<bool> {
        let set = call(changes::set_time_display, (*audit_context, user, display));
        self.api().transaction("set_time_display", set).await
    }

    async fn members(&self, account: AccountId) -> Result<Vec<AccountMember>> {
        self.api().all("members", sql::query_as(MEMBERS).bind(account)).await
    }

    async fn memberships(&self, user: UserId) -> Result<Vec<Membership>> {
        self.api().all("memberships", sql::query_as(MEMBERSHIPS).bind(user)).await
    }

    async fn role(&self, account: AccountId, user: UserId) -> Result<Option<Role>> {
        self.api().scalar("role", sql::query_scalar(ROLE).bind(account).bind(user)).await
    }

    async fn change_member(
        &self,
        write: &WriteContext,
        user: UserId,
        change: MemberChange,
    ) -> Result<MemberChanged> {
        let change = call(changes::change_member, (*write, user, change));
        self.api().transaction("change_member", change).await
    }

    async fn create_invitation(
        &self,
        write: &WriteContext,
        invitation: &NewInvitation,
    ) -> Result<bool> {
        let create = call(changes::create_invitation, (*write, invitation.clone()));
        self.api().transaction("create_invitation", create).await
    }

    async fn invitations(&self, account: AccountId, now: Timestamp) -> Result<Vec<Invitation>> {
        self.api().all("invitations", sql::query_as(INVITATIONS).bind(account).bind(now)).await
    }

    async fn delete_invitation(&self, write: &WriteContext, id: InvitationId) -> Result<bool> {
        let delete = call(changes::delete_invitation, (*write, id));
        self.api().transaction("delete_invitation", delete).await
    }

    async fn accept_invitation(
        &self,
        audit_context: &AuditContext,
        user: UserId,
        digest: TokenDigest,
    ) -> Result<Option<AccountId>> {
        let accept = call(changes::accept_invitation, (*audit_context, user, digest));
        self.api().transaction("accept_invitation", accept).await
    }

    async fn create_session(&self, now: Timestamp, session: &NewSession) -> Result<bool> {
        let create = call(logins::create_session, (now, session.clone()));
        self.api().transaction("create_session", create).await
    }

    async fn session(&self, digest: TokenDigest, now: Timestamp) -> Result<Option<Session>> {
        self.api()
            .optional("session", sql::query_as(SESSION).bind(digest.0.to_vec()).bind(now))
            .await
    }

    async fn sessions(&self, user: UserId, now: Timestamp) -> Result<Vec<Session>> {
        self.api().all("sessions", sql::query_as(SESSIONS).bind(user).bind(now)).await
    }

    async fn extend_session(
        &self,
        now: Timestamp,
        id: SessionId,
        expires_at: Timestamp,
    ) -> Result<()> {
        let extend = call(logins::extend_session, (now, id, expires_at));
        self.api().transaction("extend_session", extend).await
    }

    async fn end_sessions(
        &self,
        audit_context: &AuditContext,
        user: UserId,
        which: SessionEnding,
    ) -> Result<()> {
        let end = call(logins::end_sessions, (*audit_context, user, which));
        self.api().transaction("end_sessions", end).await
    }

    async fn create_reset(&self, now: Timestamp, reset: &NewReset) -> Result<bool> {
        let create = call(logins::create_reset, (now, reset.clone()));
        self.api().transaction("create_reset", create).await
    }

    async fn reset(&self, digest: TokenDigest, now: Timestamp) -> Result<Option<UserId>> {
        self.api().scalar("reset", sql::query_scalar(RESET).bind(digest.0.to_vec()).bind(now)).await
    }

    async fn complete_reset(
        &self,
        audit_context: &AuditContext,
        digest: TokenDigest,
        password: &PasswordHash,
    ) -> Result<Option<UserId>> {
        let new = (*audit_context, digest, password.clone());
        self.api().transaction("complete_reset", call(logins::complete_reset, new)).await
    }

    async fn prune_logins(&self, now: Timestamp, limit: u32) -> Result<u64> {
        let mut most = 0;
        for rows in OLD_LOGINS {
            most = most.max(prune(self, "prune_logins", now, limit, rows).await?);
        }
        Ok(most)
    }
}

const OLD_LOGINS: [OldRows; 3] =
    [old_logins("sessions"), old_logins("invitations"), old_logins("password_resets")];

const fn old_logins(table: &'static str) -> OldRows {
    OldRows { table, condition: "expires_at <= $1", order: "expires_at" }
}
