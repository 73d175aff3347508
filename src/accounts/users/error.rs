//! The errors of user commands.

use crate::accounts::oidc::OidcError;
use crate::accounts::passwords::{HashError, UnusablePassword};
use crate::accounts::throttle::Throttled;
use crate::channels::email::MailError;
use crate::domain::Timestamp;
use crate::domain::user::{EmailAddress, InvalidAddress, Role};
use crate::store::StoreError;

/// The reason why a user's command failed. The texts are shown to the user.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The user does not exist or is disabled, or the password is wrong.
    #[error("the e-mail address or the password is wrong")]
    WrongCredentials,
    /// Too many attempts were made.
    #[error("too many tries: wait until {0}")]
    TooMany(Timestamp),
    /// The session does not exist any more.
    #[error("the session has ended: sign in again")]
    SignedOut,
    /// Sign-up is disabled.
    #[error("sign-up is disabled here: ask the operator to create a user")]
    SignUpOff,
    /// Sign-up needs an invitation.
    #[error("sign-up needs an invitation here: ask an owner of an account")]
    InvitationNeeded,
    /// The token of an invitation or a mailed link is invalid, used, expired or for another user.
    #[error("the link was used, has expired, or is for another user: ask for a new one")]
    InvalidLink,
    /// A user with this address exists.
    #[error("a user with this e-mail address already exists: sign in")]
    EmailTaken,
    /// The name of an account is invalid or taken.
    #[error("{0}")]
    Name(String),
    /// The text is not an e-mail address.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// The text cannot be a password.
    #[error(transparent)]
    Password(#[from] UnusablePassword),
    /// The account does not exist, or the user is not a member of it.
    #[error("there is no such account")]
    NoSuchAccount,
    /// The user's role does not allow the command.
    #[error("only a user with at least the role {0} may do that")]
    Forbidden(Role),
    /// The member or invitation does not exist.
    #[error("there is no such user or invitation in the account")]
    NoSuchMember,
    /// The account would have no owner.
    #[error("an account needs at least one owner: make another member an owner first")]
    LastOwner,
    /// Mail cannot be sent because the named setting is missing.
    #[error("this installation cannot send mail: the operator has to set {0}")]
    NoMail(&'static str),
    /// A mail could not be sent.
    #[error(transparent)]
    Mail(#[from] MailError),
    /// The OpenID provider did not sign in the person.
    #[error(transparent)]
    Oidc(#[from] OidcError),
    /// The person is not a user, and the provider does not confirm an address.
    #[error(
        "your e-mail address is not confirmed: confirm it at the sign-in provider, then sign in \
         again"
    )]
    EmailUnconfirmed,
    /// There is a user with this address, who may be another person.
    #[error(
        "there is a user {0}, but it is not known that the address is theirs: set a new password \
         with \"Forgotten password?\", or ask the operator to confirm the address (punctual user \
         confirm), then sign in again"
    )]
    AddressUnproven(EmailAddress),
    /// The user with this address belongs to another person at the provider.
    #[error(
        "the user {0} belongs to another person at the provider: ask the operator to remove that \
         link (punctual user unlink), then sign in again"
    )]
    OtherPerson(EmailAddress),
    /// The person is not a user, and nothing admits this address.
    #[error(
        "there is no user {0} here, and no open invitation for this address: ask an owner of an \
         account for one, then sign in again"
    )]
    NotInvited(EmailAddress),
    /// The account that new users join by a rule does not exist.
    #[error(
        "the account that you would join does not exist: ask the operator to correct \
         oidc.join_account"
    )]
    NoSuchJoinAccount,
    /// The user is disabled.
    #[error("this user is disabled: ask the operator")]
    Disabled,
    /// A password could not be hashed or checked.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Throttled> for UserError {
    fn from(throttled: Throttled) -> Self {
        Self::TooMany(throttled.until)
    }
}
