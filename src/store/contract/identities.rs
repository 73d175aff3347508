//! The identities of users: people at an OpenID provider who sign in as a user.

use crate::domain::UserId;
use crate::runtime::measured;
use crate::store::{AuditContext, JoinedAccount, NewUser, Result, User, UserCreated};

/// A person at an OpenID provider. A provider never gives a subject to another person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The URL of the provider.
    pub issuer: String,
    /// The provider's identifier of the person.
    pub subject: String,
}

/// The result of linking an identity to a user. All results but `Linked` change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityLink {
    /// The identity belongs to the user.
    Linked,
    /// There is no such user.
    NoSuchUser,
    /// It is not known that the address is the user's.
    Unconfirmed,
    /// The user has another identity of this provider: the address may have a new owner.
    OtherIdentity,
    /// The identity belongs to another user.
    OtherUser,
}

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// The identities of users. A user has at most one of each provider, and an identity belongs to
    /// one user.
    pub trait IdentityStore: Send + Sync {
        /// Returns the user to whom an identity belongs.
        async fn identity_user(&self, identity: &Identity) -> Result<Option<User>>;

        /// Links an identity to a user with a confirmed address, which is recorded in the audit log
        /// of each of the user's accounts. A repeated call has no effect.
        async fn link_identity(
            &self,
            audit_context: &AuditContext,
            user: UserId,
            identity: &Identity,
        ) -> Result<IdentityLink>;

        /// Removes the identities of a user, and ends all sessions. A repeated call has no effect.
        /// Returns `false` if there is no such user.
        async fn unlink_identities(&self, audit_context: &AuditContext, user: UserId) -> Result<bool>;

        /// Creates a user like `create_user`, to whom the identity belongs.
        async fn create_identity_user(
            &self,
            audit_context: &AuditContext,
            user: &NewUser,
            identity: &Identity,
            joins: &JoinedAccount,
        ) -> Result<UserCreated>;
    }
}
