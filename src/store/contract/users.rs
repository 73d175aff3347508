//! Users, their memberships, and their sessions, invitations and password resets.
//!
//! E-mail addresses are compared in their normal form. Of tokens, only digests are stored. An
//! expired row counts as deleted, even if it was not removed yet.

use crate::domain::token::TokenDigest;
use crate::domain::user::{EmailAddress, Role, TimeDisplay};
use crate::domain::{AccountId, InvitationId, ResetId, SessionId, Timestamp, UserId};
use crate::runtime::measured;
use crate::store::{Account, AuditContext, Result, WriteContext};

/// The stored form of a password: the text that argon2id returns. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(pub String);

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash")
    }
}

/// A person who can sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The id of the user.
    pub id: UserId,
    /// The address. No two users have the same.
    pub email: EmailAddress,
    /// The hash to compare a password with.
    pub password: PasswordHash,
    /// The version of the password: each change raises it.
    pub password_version: i64,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time from which the user cannot sign in, if the user is disabled.
    pub disabled_at: Option<Timestamp>,
    /// The time since which the user is an operator; `None` for all others.
    pub operator_since: Option<Timestamp>,
    /// The time at which the address was confirmed; `None` if it may be that of another person.
    pub email_confirmed_at: Option<Timestamp>,
}

/// A user to be stored.
#[derive(Clone, Debug)]
pub struct NewUser {
    /// The id of the user.
    pub id: UserId,
    /// The address.
    pub email: EmailAddress,
    /// The hash of the password.
    pub password: PasswordHash,
    /// `true` if it is known that the address is the user's.
    pub is_confirmed: bool,
}

/// The account that a new user joins.
#[derive(Clone, Debug)]
pub enum JoinedAccount {
    /// The user joins no account yet.
    Nothing,
    /// The user becomes the owner of this new account.
    New(Account),
    /// The user joins an existing account.
    Existing(AccountId, Role),
    /// The user joins the account of the invitation with this digest, if it is for the user's
    /// address.
    Invited(TokenDigest),
    /// The user joins all accounts that have invited the user's address, at least one.
    InvitedByAddress,
}

impl JoinedAccount {
    /// Returns the account that is created with the user, and the time.
    pub(in crate::store) fn new_account(&self) -> Option<(AccountId, Timestamp)> {
        match self {
            Self::New(account) => Some((account.id, account.created_at)),
            _ => None,
        }
    }
}

/// The result of creating a user. All results but `Created` change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserCreated {
    /// The user was created and has joined the account.
    Created,
    /// A user with this address exists already.
    EmailTaken,
    /// The name of the new account is taken.
    NameTaken,
    /// The account does not exist.
    NoSuchAccount,
    /// There is no such invitation for this address.
    NoSuchInvitation,
    /// The identity belongs to a user already.
    IdentityTaken,
}

/// A user from the view of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountMember {
    /// The id of the user.
    pub user: UserId,
    /// The user's address.
    pub email: EmailAddress,
    /// The role of the user.
    pub role: Role,
    /// The time at which the user joined.
    pub since: Timestamp,
}

/// An account from the view of one of its users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The id of the account.
    pub account: AccountId,
    /// The name of the account.
    pub name: String,
    /// The role of the user.
    pub role: Role,
}

/// A change of the members of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// A user joins. Nothing changes for a user who is a member already.
    Add(Role),
    /// A member gets another role.
    Set(Role),
    /// A member leaves.
    Remove,
}

/// The result of a change of members. All results but `Done` change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChanged {
    /// The change took effect, or was not needed.
    Done,
    /// There is no such member or, for a user who is to join, no such user or account.
    NoSuchMember,
    /// The account would be left without an owner.
    LastOwner,
}

/// An invitation to be stored.
#[derive(Clone, Debug)]
pub struct NewInvitation {
    /// The id of the invitation.
    pub id: InvitationId,
    /// The address of the invited user.
    pub email: EmailAddress,
    /// The role that the user will have.
    pub role: Role,
    /// The digest of its token.
    pub digest: TokenDigest,
    /// The time from which it is refused.
    pub expires_at: Timestamp,
}

/// An invitation that was not accepted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The id of the invitation.
    pub id: InvitationId,
    /// The address of the invited user.
    pub email: EmailAddress,
    /// The role that the user will have.
    pub role: Role,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time from which it is refused.
    pub expires_at: Timestamp,
}

/// A session to be stored.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// The id of the session.
    pub id: SessionId,
    /// The user.
    pub user: UserId,
    /// The version of the password that was checked.
    pub password_version: i64,
    /// The digest of its token.
    pub digest: TokenDigest,
    /// The time from which the session is refused, unless a use extends it.
    pub expires_at: Timestamp,
    /// The time from which the session is refused in any case.
    pub ends_at: Timestamp,
}

/// A session that has not expired, of a user who is not disabled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The id of the session.
    pub id: SessionId,
    /// The user.
    pub user: UserId,
    /// The user's address.
    pub email: EmailAddress,
    /// The time since which the user is an operator; `None` for all others.
    pub operator_since: Option<Timestamp>,
    /// The way in which pages show times to the user.
    pub time_display: TimeDisplay,
    /// The time of the sign-in.
    pub created_at: Timestamp,
    /// The time from which the session is refused, unless a use extends it.
    pub expires_at: Timestamp,
    /// The time from which the session is refused in any case.
    pub ends_at: Timestamp,
}

/// The sessions of a user that are to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnding {
    /// This session.
    One(SessionId),
    /// All sessions but this one.
    AllBut(SessionId),
    /// All sessions.
    All,
}

/// A request to reset a forgotten password.
#[derive(Clone, Debug)]
pub struct NewReset {
    /// The id of the reset.
    pub id: ResetId,
    /// The user whose password is reset.
    pub user: UserId,
    /// The digest of its token.
    pub digest: TokenDigest,
    /// The time from which it is refused.
    pub expires_at: Timestamp,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Users, their memberships, and their sessions, invitations and password resets.
    pub trait UserStore: Send + Sync {
        /// Creates a user and, unless `joins` is `Nothing`, the membership. This writes one entry
        /// to the audit log of that account or, if there is none, of the installation. A caller
        /// with an invitation learns that the address is taken only if the invitation is for this
        /// address.
        async fn create_user(&self, audit_context: &AuditContext, user: &NewUser, joins: &JoinedAccount) -> Result<UserCreated>;

        /// Returns a user by id.
        async fn user(&self, id: UserId) -> Result<Option<User>>;

        /// Returns a user by address.
        async fn user_named(&self, email: &EmailAddress) -> Result<Option<User>>;

        /// Returns all users, sorted by address.
        async fn users(&self) -> Result<Vec<User>>;

        /// Sets a user's password, ends all sessions but `keep`, and revokes open password resets.
        /// Returns `false` and changes nothing if there is no such user, or if the password no
        /// longer has this `version`.
        async fn set_password(
            &self,
            audit_context: &AuditContext,
            user: UserId,
            version: Option<i64>,
            password: &PasswordHash,
            keep: Option<SessionId>,
        ) -> Result<bool>;

        /// Replaces the hash of the same password, if the password still has this `version`.
        async fn rehash_password(
            &self,
            user: UserId,
            version: i64,
            password: &PasswordHash,
        ) -> Result<()>;

        /// Disables or enables a user. Disabling ends all sessions and revokes open password
        /// resets. A repeated call has no effect. Returns `false` if there is no such user.
        async fn disable_user(&self, audit_context: &AuditContext, user: UserId, disabled: bool) -> Result<bool>;

        /// Records that the address of a user is confirmed. A repeated call has no effect. Returns
        /// `false` if there is no such user. Using an invitation or a password reset records it,
        /// too, because their links are sent to the address.
        async fn confirm_email(&self, audit_context: &AuditContext, user: UserId) -> Result<bool>;

        /// Makes a user an operator, or takes that role away. A repeated call has no effect.
        /// Returns `false` if there is no such user. The change is recorded in the audit log of the
        /// installation.
        async fn set_operator(&self, audit_context: &AuditContext, user: UserId, is_operator: bool) -> Result<bool>;

        /// Sets the way in which pages show times to a user. A repeated call has no effect. Returns
        /// `false` if there is no such user. The change is recorded in the audit logs of the user's
        /// accounts.
        async fn set_time_display(&self, audit_context: &AuditContext, user: UserId, display: TimeDisplay) -> Result<bool>;

        /// Returns the members of an account, sorted by address.
        async fn members(&self, account: AccountId) -> Result<Vec<AccountMember>>;

        /// Returns the memberships of a user, sorted by the name of the account.
        async fn memberships(&self, user: UserId) -> Result<Vec<Membership>>;

        /// Returns the role of a user in an account; `None` if the user is disabled or no member.
        async fn role(&self, account: AccountId, user: UserId) -> Result<Option<Role>>;

        /// Changes the members of an account. An account that has an owner keeps at least one, even
        /// with concurrent calls.
        async fn change_member(
            &self,
            write: &WriteContext,
            user: UserId,
            change: MemberChange,
        ) -> Result<MemberChanged>;

        /// Creates an invitation, which replaces others for the same address. Returns `false` if
        /// there is no such account.
        async fn create_invitation(&self, write: &WriteContext, invitation: &NewInvitation) -> Result<bool>;

        /// Returns the open invitations of an account at `now`, newest first.
        async fn invitations(&self, account: AccountId, now: Timestamp) -> Result<Vec<Invitation>>;

        /// Revokes an invitation. Returns `false` if the account has none with this id.
        async fn delete_invitation(&self, write: &WriteContext, id: InvitationId) -> Result<bool>;

        /// Uses up an invitation: the user joins its account. Returns the account; returns `None`
        /// and changes nothing if there is no such invitation for the user's address.
        async fn accept_invitation(
            &self,
            audit_context: &AuditContext,
            user: UserId,
            digest: TokenDigest,
        ) -> Result<Option<AccountId>>;

        /// Creates a session. Returns `false` if the user is disabled or the password has changed
        /// since.
        async fn create_session(&self, now: Timestamp, session: &NewSession) -> Result<bool>;

        /// Returns the session with this digest.
        async fn session(&self, digest: TokenDigest, now: Timestamp) -> Result<Option<Session>>;

        /// Returns the sessions of a user, newest first.
        async fn sessions(&self, user: UserId, now: Timestamp) -> Result<Vec<Session>>;

        /// Extends a session that has not expired to `expires_at`, but not beyond its `ends_at`.
        async fn extend_session(
            &self,
            now: Timestamp,
            id: SessionId,
            expires_at: Timestamp,
        ) -> Result<()>;

        /// Ends sessions of a user. Ending just one (`SessionEnding::One`) is not recorded in the
        /// audit log.
        async fn end_sessions(&self, audit_context: &AuditContext, user: UserId, which: SessionEnding) -> Result<()>;

        /// Stores a password reset, which replaces earlier ones of the user. Returns `false` if
        /// there is no such user or the user is disabled.
        async fn create_reset(&self, now: Timestamp, reset: &NewReset) -> Result<bool>;

        /// Returns the user whose password the reset with this digest may set.
        async fn reset(&self, digest: TokenDigest, now: Timestamp) -> Result<Option<UserId>>;

        /// Uses up a password reset: sets the password like `set_password`, and ends all sessions.
        /// Returns the user; returns `None` and changes nothing if there is no such reset.
        async fn complete_reset(
            &self,
            audit_context: &AuditContext,
            digest: TokenDigest,
            password: &PasswordHash,
        ) -> Result<Option<UserId>>;

        /// Deletes the sessions, invitations and password resets that have expired at `now`, at
        /// most `limit` of each. Returns the largest of the three numbers.
        async fn prune_logins(&self, now: Timestamp, limit: u32) -> Result<u64>;
    }
}
