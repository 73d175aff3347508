//! Users, what they belong to, and how they get in.

use async_trait::async_trait;

use super::{SqliteStore, failed_in, signing, user_changes};
use crate::domain::token::TokenDigest;
use crate::domain::user::{EmailAddress, Role};
use crate::domain::{AccountId, InvitationId, SessionId, Timestamp, UserId};
use crate::store::user_rows::{
    INVITATIONS, MEMBERS, MEMBERSHIPS, RESET, ROLE, SESSION, SESSIONS, USER, USER_NAMED, USERS,
};
use crate::store::{
    Act, Ending, Invitation, Joins, Member, MemberChange, MemberChanged, Membership, NewInvitation,
    NewReset, NewSession, NewUser, PasswordHash, Result, Session, User, UserCreated, UserStore,
    Write,
};

#[async_trait]
impl UserStore for SqliteStore {
    async fn create_user(&self, act: &Act, user: &NewUser, joins: &Joins) -> Result<UserCreated> {
        let (act, user, joins) = (*act, user.clone(), joins.clone());
        let (vault, account) = (self.vault.clone(), joins.new_account());
        self.write("create_user", move |connection| {
            Box::pin(async move {
                let created = user_changes::create_user(connection, act, user, joins).await?;
                if let (UserCreated::Created, Some((id, at))) = (created, account) {
                    signing::make_first(connection, &vault, id, at).await?;
                }
                Ok(created)
            })
        })
        .await
    }

    async fn user(&self, id: UserId) -> Result<Option<User>> {
        let query = sqlx::query_as(USER).bind(id);
        self.readers.optional(query).await.map_err(failed_in("user"))
    }

    async fn user_named(&self, email: &EmailAddress) -> Result<Option<User>> {
        let query = sqlx::query_as(USER_NAMED).bind(email.as_str().to_owned());
        self.readers.optional(query).await.map_err(failed_in("user_named"))
    }

    async fn users(&self) -> Result<Vec<User>> {
        let query = sqlx::query_as(USERS);
        self.readers.all(query).await.map_err(failed_in("users"))
    }

    async fn set_password(
        &self,
        act: &Act,
        user: UserId,
        version: Option<i64>,
        password: &PasswordHash,
        keep: Option<SessionId>,
    ) -> Result<bool> {
        let (act, password) = (*act, password.clone());
        self.write("set_password", move |connection| {
            Box::pin(user_changes::set_password(connection, act, (user, version), password, keep))
        })
        .await
    }

    async fn rehash_password(
        &self,
        user: UserId,
        version: i64,
        password: &PasswordHash,
    ) -> Result<()> {
        let password = password.clone();
        self.write("rehash_password", move |connection| {
            Box::pin(user_changes::rehash_password(connection, user, version, password))
        })
        .await
    }

    async fn disable_user(&self, act: &Act, user: UserId, disabled: bool) -> Result<bool> {
        let act = *act;
        self.write("disable_user", move |connection| {
            Box::pin(user_changes::disable_user(connection, act, user, disabled))
        })
        .await
    }

    async fn members(&self, account: AccountId) -> Result<Vec<Member>> {
        let query = sqlx::query_as(MEMBERS).bind(account);
        self.readers.all(query).await.map_err(failed_in("members"))
    }

    async fn memberships(&self, user: UserId) -> Result<Vec<Membership>> {
        let query = sqlx::query_as(MEMBERSHIPS).bind(user);
        self.readers.all(query).await.map_err(failed_in("memberships"))
    }

    async fn role(&self, account: AccountId, user: UserId) -> Result<Option<Role>> {
        let query = sqlx::query_as(ROLE).bind(account).bind(user);
        let found: Option<(_,)> = self.readers.optional(query).await.map_err(failed_in("role"))?;
        Ok(found.map(|(found,)| found))
    }

    async fn change_member(
        &self,
        write: &Write,
        user: UserId,
        change: MemberChange,
    ) -> Result<MemberChanged> {
        let write = *write;
        self.write("change_member", move |connection| {
            Box::pin(user_changes::change_member(connection, write, user, change))
        })
        .await
    }

    async fn create_invitation(&self, write: &Write, invitation: &NewInvitation) -> Result<bool> {
        let (write, invitation) = (*write, invitation.clone());
        self.write("create_invitation", move |connection| {
            Box::pin(user_changes::create_invitation(connection, write, invitation))
        })
        .await
    }

    async fn invitations(&self, account: AccountId, now: Timestamp) -> Result<Vec<Invitation>> {
        let query = sqlx::query_as(INVITATIONS).bind(account).bind(now);
        self.readers.all(query).await.map_err(failed_in("invitations"))
    }

    async fn delete_invitation(&self, write: &Write, id: InvitationId) -> Result<bool> {
        let write = *write;
        self.write("delete_invitation", move |connection| {
            Box::pin(user_changes::delete_invitation(connection, write, id))
        })
        .await
    }

    async fn accept_invitation(
        &self,
        act: &Act,
        user: UserId,
        digest: TokenDigest,
    ) -> Result<Option<AccountId>> {
        let act = *act;
        self.write("accept_invitation", move |connection| {
            Box::pin(user_changes::accept_invitation(connection, act, user, digest))
        })
        .await
    }

    async fn create_session(&self, now: Timestamp, session: &NewSession) -> Result<bool> {
        let session = session.clone();
        self.write("create_session", move |connection| {
            Box::pin(user_changes::create_session(connection, now, session))
        })
        .await
    }

    async fn session(&self, digest: TokenDigest, now: Timestamp) -> Result<Option<Session>> {
        let query = sqlx::query_as(SESSION).bind(digest.0.to_vec()).bind(now);
        self.readers.optional(query).await.map_err(failed_in("session"))
    }

    async fn sessions(&self, user: UserId, now: Timestamp) -> Result<Vec<Session>> {
        let query = sqlx::query_as(SESSIONS).bind(user).bind(now);
        self.readers.all(query).await.map_err(failed_in("sessions"))
    }

    async fn extend_session(
        &self,
        now: Timestamp,
        id: SessionId,
        expires_at: Timestamp,
    ) -> Result<()> {
        self.write("extend_session", move |connection| {
            Box::pin(user_changes::extend_session(connection, now, id, expires_at))
        })
        .await
    }

    async fn end_sessions(&self, act: &Act, user: UserId, which: Ending) -> Result<()> {
        let act = *act;
        self.write("end_sessions", move |connection| {
            Box::pin(user_changes::end_sessions(connection, act, user, which))
        })
        .await
    }

    async fn create_reset(&self, now: Timestamp, reset: &NewReset) -> Result<bool> {
        let reset = reset.clone();
        self.write("create_reset", move |connection| {
            Box::pin(user_changes::create_reset(connection, now, reset))
        })
        .await
    }

    async fn reset(&self, digest: TokenDigest, now: Timestamp) -> Result<Option<UserId>> {
        let query = sqlx::query_as(RESET).bind(digest.0.to_vec()).bind(now);
        let found: Option<(_,)> = self.readers.optional(query).await.map_err(failed_in("reset"))?;
        Ok(found.map(|(found,)| found))
    }

    async fn complete_reset(
        &self,
        act: &Act,
        digest: TokenDigest,
        password: &PasswordHash,
    ) -> Result<Option<UserId>> {
        let (act, password) = (*act, password.clone());
        self.write("complete_reset", move |connection| {
            Box::pin(user_changes::complete_reset(connection, act, digest, password))
        })
        .await
    }

    async fn prune_logins(&self, now: Timestamp, limit: u32) -> Result<u64> {
        self.write("prune_logins", move |connection| {
            Box::pin(user_changes::prune(connection, now, limit))
        })
        .await
    }
}
