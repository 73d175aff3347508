//! Users, what they belong to, and how they get in.
//!
//! Addresses compare in their normal form. Of tokens only digests are kept. What has expired is as
//! good as gone, whether it is removed already or not.

use super::{Account, Act, Result, Write};
use crate::domain::token::TokenDigest;
use crate::domain::user::{EmailAddress, Role};
use crate::domain::{AccountId, InvitationId, ResetId, SessionId, Timestamp, UserId};
use crate::runtime::measured;

/// What a store keeps of a password: the text that argon2id makes. Never shown.
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
    /// The user's id.
    pub id: UserId,
    /// No two users have the same.
    pub email: EmailAddress,
    /// To compare a password with.
    pub password: PasswordHash,
    /// Rises when the password is changed.
    pub password_version: i64,
    /// When the user was made.
    pub created_at: Timestamp,
    /// Since when the user cannot sign in.
    pub disabled_at: Option<Timestamp>,
}

/// A user to be stored.
#[derive(Clone, Debug)]
pub struct NewUser {
    /// The user's id.
    pub id: UserId,
    /// The address.
    pub email: EmailAddress,
    /// The password.
    pub password: PasswordHash,
}

/// What a new user belongs to.
#[derive(Clone, Debug)]
pub enum Joins {
    /// Nothing yet.
    Nothing,
    /// A new account, as its owner.
    New(Account),
    /// An account that is there.
    Existing(AccountId, Role),
    /// What the invitation with this digest says, if it is for the user's address.
    Invited(TokenDigest),
}

impl Joins {
    /// The account that is made with the user, and when.
    pub(in crate::store) fn new_account(&self) -> Option<(AccountId, Timestamp)> {
        match self {
            Self::New(account) => Some((account.id, account.created_at)),
            _ => None,
        }
    }
}

/// What became of making a user. All but `Created` change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserCreated {
    /// The user is there, and belongs to what was asked for.
    Created,
    /// There is a user with this address.
    EmailTaken,
    /// The name of the new account is taken.
    NameTaken,
    /// There is no such account.
    NoSuchAccount,
    /// There is no such invitation for this address.
    NoSuchInvitation,
}

/// A user as an account sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The user.
    pub user: UserId,
    /// The user's address.
    pub email: EmailAddress,
    /// What the user may do.
    pub role: Role,
    /// Since when.
    pub since: Timestamp,
}

/// An account as one of its users sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The account.
    pub account: AccountId,
    /// Its name.
    pub name: String,
    /// What the user may do.
    pub role: Role,
}

/// A change of who belongs to an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// A user joins; nothing changes for one who is there already.
    Add(Role),
    /// A member gets another role.
    Set(Role),
    /// A member leaves.
    Remove,
}

/// What became of such a change. All but `Done` change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChanged {
    /// It is so now.
    Done,
    /// There is no such member; or, of one who is to join, no such user or account.
    NoSuchMember,
    /// The account would have no owner.
    LastOwner,
}

/// An invitation to be stored.
#[derive(Clone, Debug)]
pub struct NewInvitation {
    /// Its id.
    pub id: InvitationId,
    /// Whom it is for.
    pub email: EmailAddress,
    /// What the user will be allowed to do.
    pub role: Role,
    /// The digest of its token.
    pub digest: TokenDigest,
    /// From when on it is refused.
    pub expires_at: Timestamp,
}

/// An invitation that waits to be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// Its id.
    pub id: InvitationId,
    /// Whom it is for.
    pub email: EmailAddress,
    /// What the user will be allowed to do.
    pub role: Role,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is refused.
    pub expires_at: Timestamp,
}

/// A session to be stored.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Its id.
    pub id: SessionId,
    /// Whose it is.
    pub user: UserId,
    /// The version of the password that was shown.
    pub password_version: i64,
    /// The digest of its token.
    pub digest: TokenDigest,
    /// From when on it is refused, unless it is used before.
    pub expires_at: Timestamp,
    /// From when on it is refused in any case.
    pub ends_at: Timestamp,
}

/// A session that has not expired, of a user who is not disabled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Whose it is.
    pub user: UserId,
    /// The user's address.
    pub email: EmailAddress,
    /// When the user signed in.
    pub created_at: Timestamp,
    /// From when on it is refused, unless it is used before.
    pub expires_at: Timestamp,
    /// From when on it is refused in any case.
    pub ends_at: Timestamp,
}

/// Which sessions of a user are to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// One.
    One(SessionId),
    /// All but one.
    AllBut(SessionId),
    /// All.
    All,
}

/// A request to set a forgotten password anew.
#[derive(Clone, Debug)]
pub struct NewReset {
    /// Its id.
    pub id: ResetId,
    /// Whose password it is.
    pub user: UserId,
    /// The digest of its token.
    pub digest: TokenDigest,
    /// From when on it is refused.
    pub expires_at: Timestamp,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// Users, what they belong to, and how they get in.
    pub trait UserStore: Send + Sync {
        /// Makes a user, and what the user joins: of that the account's audit log has one entry, or that of
        /// the installation if the user joins nothing. That
        /// there is a user with the address is told to nobody whose invitation is not for it.
        async fn create_user(&self, act: &Act, user: &NewUser, joins: &Joins) -> Result<UserCreated>;

        /// A user by id.
        async fn user(&self, id: UserId) -> Result<Option<User>>;

        /// A user by address.
        async fn user_named(&self, email: &EmailAddress) -> Result<Option<User>>;

        /// All users, by address.
        async fn users(&self) -> Result<Vec<User>>;

        /// Sets a user's password, ends all sessions but `keep`, and takes back what was mailed to set
        /// it anew. `false`, and no change, if there is no such user, or the password is not of this
        /// `version` any more.
        async fn set_password(
            &self,
            act: &Act,
            user: UserId,
            version: Option<i64>,
            password: &PasswordHash,
            keep: Option<SessionId>,
        ) -> Result<bool>;

        /// Replaces the hash of the same password, if `version` is still the password's.
        async fn rehash_password(
            &self,
            user: UserId,
            version: i64,
            password: &PasswordHash,
        ) -> Result<()>;

        /// Disables a user, or enables one. Disabling ends all sessions and takes back what was mailed to
        /// set the password anew. Again: no effect. `false` if there is no such user.
        async fn disable_user(&self, act: &Act, user: UserId, disabled: bool) -> Result<bool>;

        /// Who belongs to an account, by address.
        async fn members(&self, account: AccountId) -> Result<Vec<Member>>;

        /// What a user belongs to, by name.
        async fn memberships(&self, user: UserId) -> Result<Vec<Membership>>;

        /// What a user who is not disabled may do in an account.
        async fn role(&self, account: AccountId, user: UserId) -> Result<Option<Role>>;

        /// Changes who belongs to an account. An account that has an owner keeps one, whatever happens
        /// at the same time.
        async fn change_member(
            &self,
            write: &Write,
            user: UserId,
            change: MemberChange,
        ) -> Result<MemberChanged>;

        /// Makes an invitation, in place of others for the same address. `false` if there is no such
        /// account.
        async fn create_invitation(&self, write: &Write, invitation: &NewInvitation) -> Result<bool>;

        /// The invitations of an account that wait at `now`, newest first.
        async fn invitations(&self, account: AccountId, now: Timestamp) -> Result<Vec<Invitation>>;

        /// Takes an invitation back. `false` if there is none with this id.
        async fn delete_invitation(&self, write: &Write, id: InvitationId) -> Result<bool>;

        /// Uses an invitation up: the user joins. Returns the account; `None`, and no change, if there
        /// is no such invitation for the user's address.
        async fn accept_invitation(
            &self,
            act: &Act,
            user: UserId,
            digest: TokenDigest,
        ) -> Result<Option<AccountId>>;

        /// Makes a session. `false` if the user is disabled, or the password has changed since.
        async fn create_session(&self, now: Timestamp, session: &NewSession) -> Result<bool>;

        /// The session with this digest.
        async fn session(&self, digest: TokenDigest, now: Timestamp) -> Result<Option<Session>>;

        /// The sessions of a user, newest first.
        async fn sessions(&self, user: UserId, now: Timestamp) -> Result<Vec<Session>>;

        /// Lets a session that has not expired go on until `expires_at`, but not beyond its end.
        async fn extend_session(
            &self,
            now: Timestamp,
            id: SessionId,
            expires_at: Timestamp,
        ) -> Result<()>;

        /// Ends sessions of a user. That one of them ends is no change that is entered.
        async fn end_sessions(&self, act: &Act, user: UserId, which: Ending) -> Result<()>;

        /// Notes that a user may set the password anew, in place of earlier notes. `false` if there is
        /// no such user or the user is disabled.
        async fn create_reset(&self, now: Timestamp, reset: &NewReset) -> Result<bool>;

        /// Who may set the password anew with this digest.
        async fn reset(&self, digest: TokenDigest, now: Timestamp) -> Result<Option<UserId>>;

        /// Uses such a note up: as `set_password`, without a session to keep. Returns whose password
        /// it is; `None`, and no change, if there is no such note.
        async fn complete_reset(
            &self,
            act: &Act,
            digest: TokenDigest,
            password: &PasswordHash,
        ) -> Result<Option<UserId>>;

        /// Removes what has expired at `now`: at most `limit` sessions, as many invitations, and as many
        /// notes of passwords to be set anew. Returns how many there were of those of which there were
        /// most.
        async fn prune_logins(&self, now: Timestamp, limit: u32) -> Result<u64>;
    }
}
