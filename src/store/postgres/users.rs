//! Users, what they belong to, and how they get in.

use async_trait::async_trait;

use super::{PostgresStore, Within, signing, user_changes};
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
impl UserStore for PostgresStore {
    async fn create_user(&self, act: &Act, user: &NewUser, joins: &Joins) -> Result<UserCreated> {
        let (act, user, joins) = (*act, user.clone(), joins.clone());
        let vault = self.vault.clone();
        self.api
            .run("create_user", Within::Transaction, move |connection| {
                let (vault, user, joins) = (vault.clone(), user.clone(), joins.clone());
                Box::pin(async move {
                    let account = joins.new_account();
                    let created = user_changes::create_user(connection, act, user, joins).await?;
                    if let (UserCreated::Created, Some(account)) = (created, account) {
                        signing::make_first(connection, &vault, &[account]).await?;
                    }
                    Ok(created)
                })
            })
            .await
    }

    async fn user(&self, id: UserId) -> Result<Option<User>> {
        self.api
            .run("user", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = sqlx::query_as(USER).bind(id);
                    Ok(query.fetch_optional(connection).await?)
                })
            })
            .await
    }

    async fn user_named(&self, email: &EmailAddress) -> Result<Option<User>> {
        let email = email.as_str().to_owned();
        self.api
            .run("user_named", Within::Statement, move |connection| {
                let query = sqlx::query_as(USER_NAMED).bind(email.clone());
                Box::pin(async move { Ok(query.fetch_optional(connection).await?) })
            })
            .await
    }

    async fn users(&self) -> Result<Vec<User>> {
        self.api
            .run("users", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = sqlx::query_as(USERS);
                    Ok(query.fetch_all(connection).await?)
                })
            })
            .await
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
        self.api
            .run("set_password", Within::Transaction, move |connection| {
                Box::pin(user_changes::set_password(
                    connection,
                    act,
                    (user, version),
                    password.clone(),
                    keep,
                ))
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
        self.api
            .run("rehash_password", Within::Transaction, move |connection| {
                Box::pin(user_changes::rehash_password(connection, user, version, password.clone()))
            })
            .await
    }

    async fn disable_user(&self, act: &Act, user: UserId, disabled: bool) -> Result<bool> {
        let act = *act;
        self.api
            .run("disable_user", Within::Transaction, move |connection| {
                Box::pin(user_changes::disable_user(connection, act, user, disabled))
            })
            .await
    }

    async fn members(&self, account: AccountId) -> Result<Vec<Member>> {
        self.api
            .run("members", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = sqlx::query_as(MEMBERS).bind(account);
                    Ok(query.fetch_all(connection).await?)
                })
            })
            .await
    }

    async fn memberships(&self, user: UserId) -> Result<Vec<Membership>> {
        self.api
            .run("memberships", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = sqlx::query_as(MEMBERSHIPS).bind(user);
                    Ok(query.fetch_all(connection).await?)
                })
            })
            .await
    }

    async fn role(&self, account: AccountId, user: UserId) -> Result<Option<Role>> {
        self.api
            .run("role", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = sqlx::query_scalar(ROLE).bind(account).bind(user);
                    Ok(query.fetch_optional(connection).await?)
                })
            })
            .await
    }

    async fn change_member(
        &self,
        write: &Write,
        user: UserId,
        change: MemberChange,
    ) -> Result<MemberChanged> {
        let write = *write;
        self.api
            .run("change_member", Within::Transaction, move |connection| {
                Box::pin(user_changes::change_member(connection, write, user, change))
            })
            .await
    }

    async fn create_invitation(&self, write: &Write, invitation: &NewInvitation) -> Result<bool> {
        let (write, invitation) = (*write, invitation.clone());
        self.api
            .run("create_invitation", Within::Transaction, move |connection| {
                Box::pin(user_changes::create_invitation(connection, write, invitation.clone()))
            })
            .await
    }

    async fn invitations(&self, account: AccountId, now: Timestamp) -> Result<Vec<Invitation>> {
        self.api
            .run("invitations", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = sqlx::query_as(INVITATIONS).bind(account).bind(now);
                    Ok(query.fetch_all(connection).await?)
                })
            })
            .await
    }

    async fn delete_invitation(&self, write: &Write, id: InvitationId) -> Result<bool> {
        let write = *write;
        self.api
            .run("delete_invitation", Within::Transaction, move |connection| {
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
        self.api
            .run("accept_invitation", Within::Transaction, move |connection| {
                Box::pin(user_changes::accept_invitation(connection, act, user, digest))
            })
            .await
    }

    async fn create_session(&self, now: Timestamp, session: &NewSession) -> Result<bool> {
        let session = session.clone();
        self.api
            .run("create_session", Within::Transaction, move |connection| {
                Box::pin(user_changes::create_session(connection, now, session.clone()))
            })
            .await
    }

    async fn session(&self, digest: TokenDigest, now: Timestamp) -> Result<Option<Session>> {
        self.api
            .run("session", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = sqlx::query_as(SESSION).bind(digest.0.to_vec()).bind(now);
                    Ok(query.fetch_optional(connection).await?)
                })
            })
            .await
    }

    async fn sessions(&self, user: UserId, now: Timestamp) -> Result<Vec<Session>> {
        self.api
            .run("sessions", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = sqlx::query_as(SESSIONS).bind(user).bind(now);
                    Ok(query.fetch_all(connection).await?)
                })
            })
            .await
    }

    async fn extend_session(
        &self,
        now: Timestamp,
        id: SessionId,
        expires_at: Timestamp,
    ) -> Result<()> {
        self.api
            .run("extend_session", Within::Transaction, move |connection| {
                Box::pin(user_changes::extend_session(connection, now, id, expires_at))
            })
            .await
    }

    async fn end_sessions(&self, act: &Act, user: UserId, which: Ending) -> Result<()> {
        let act = *act;
        self.api
            .run("end_sessions", Within::Transaction, move |connection| {
                Box::pin(user_changes::end_sessions(connection, act, user, which))
            })
            .await
    }

    async fn create_reset(&self, now: Timestamp, reset: &NewReset) -> Result<bool> {
        let reset = reset.clone();
        self.api
            .run("create_reset", Within::Transaction, move |connection| {
                Box::pin(user_changes::create_reset(connection, now, reset.clone()))
            })
            .await
    }

    async fn reset(&self, digest: TokenDigest, now: Timestamp) -> Result<Option<UserId>> {
        self.api
            .run("reset", Within::Statement, move |connection| {
                Box::pin(async move {
                    let query = sqlx::query_scalar(RESET).bind(digest.0.to_vec()).bind(now);
                    Ok(query.fetch_optional(connection).await?)
                })
            })
            .await
    }

    async fn complete_reset(
        &self,
        act: &Act,
        digest: TokenDigest,
        password: &PasswordHash,
    ) -> Result<Option<UserId>> {
        let (act, password) = (*act, password.clone());
        self.api
            .run("complete_reset", Within::Transaction, move |connection| {
                Box::pin(user_changes::complete_reset(connection, act, digest, password.clone()))
            })
            .await
    }

    async fn prune_logins(&self, now: Timestamp, limit: u32) -> Result<u64> {
        self.scheduler
            .run("prune_logins", Within::Transaction, move |connection| {
                Box::pin(user_changes::prune(connection, now, limit))
            })
            .await
    }
}
