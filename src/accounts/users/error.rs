//! Why a command of a user has changed nothing.

use crate::accounts::passwords::{HashError, UnusablePassword};
use crate::accounts::throttle::Throttled;
use crate::channels::email::MailError;
use crate::domain::Timestamp;
use crate::domain::user::{InvalidAddress, Role};
use crate::store::StoreError;

/// Why a command of a user has changed nothing. The texts are for the user.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// There is no such user, the user is disabled, or it is another password.
    #[error("the e-mail address or the password is wrong")]
    WrongCredentials,
    /// Too many tries.
    #[error("too many tries: wait until {0}")]
    TooMany(Timestamp),
    /// There is no such session any more.
    #[error("you are not signed in any more: sign in again")]
    SignedOut,
    /// Nobody can sign up.
    #[error("nobody can sign up here: ask the operator for a user")]
    SignUpOff,
    /// Only who is invited can sign up.
    #[error("only people who are invited can sign up here: ask an owner of an account")]
    InvitationNeeded,
    /// The token of an invitation or of a mailed link is not, or not any more, one for this user.
    #[error("the link was used already, has expired, or is for somebody else: ask for another one")]
    InvalidLink,
    /// There is a user with this address.
    #[error("there is a user with this e-mail address already: sign in")]
    EmailTaken,
    /// The name of an account cannot be used or is taken.
    #[error("{0}")]
    Name(String),
    /// The text is no address.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// The text is no password.
    #[error(transparent)]
    Password(#[from] UnusablePassword),
    /// There is no such account, or the user does not belong to it.
    #[error("there is no such account")]
    NoSuchAccount,
    /// The user's role does not allow it.
    #[error("only a user with the role {0} may do that")]
    Forbidden(Role),
    /// There is no such member or invitation.
    #[error("there is no such user or invitation in the account")]
    NoSuchMember,
    /// The account would have no owner.
    #[error("an account keeps at least one owner: make somebody else one first")]
    LastOwner,
    /// Mails cannot be sent: the named setting is missing.
    #[error("no mail can be sent from here: the operator has to set {0}")]
    NoMail(&'static str),
    /// A mail was not sent.
    #[error(transparent)]
    Mail(#[from] MailError),
    /// A password was not checked.
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
