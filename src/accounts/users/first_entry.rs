//! The link that signs in one user once, without a password: for a trial on one's own machine.

use std::net::IpAddr;
use std::time::Duration;

use super::{SignedIn, UserError, Users};
use crate::domain::Timestamp;
use crate::domain::token::{Token, TokenDigest};
use crate::domain::user::EmailAddress;

/// The lifetime of a link.
const ENTRY_FOR: Duration = Duration::from_secs(3_600);

/// A link that was not used yet.
pub(super) struct FirstEntry {
    digest: TokenDigest,
    email: EmailAddress,
    expires_at: Timestamp,
}

impl Users {
    /// Returns the token of a link with which this process signs in a user once, within an hour. It
    /// replaces an earlier one, and is kept in memory only.
    pub fn first_entry(&self, email: EmailAddress) -> Token {
        let token = self.token();
        let expires_at = self.0.context.clock.now().plus(ENTRY_FOR);
        let entry = FirstEntry { digest: token.digest(), email, expires_at };
        *self.0.first_entry.lock() = Some(entry);
        token
    }

    /// Signs in with the token of [`Users::first_entry`].
    ///
    /// # Errors
    /// `InvalidLink` if the link was used, has expired or is another one.
    pub async fn enter(&self, token: &str, address: IpAddr) -> Result<SignedIn, UserError> {
        let now = self.0.context.clock.now();
        self.0.throttle.open(address, now).await?;
        let token: Token = token.parse().map_err(|_| UserError::InvalidLink)?;
        let email = self.take_entry(token.digest(), now).ok_or(UserError::InvalidLink)?;
        let user = self.0.context.store.user_named(&email).await?;
        let user = user.filter(|user| user.disabled_at.is_none()).ok_or(UserError::InvalidLink)?;
        self.begin_session(&user, now).await
    }

    fn take_entry(&self, digest: TokenDigest, now: Timestamp) -> Option<EmailAddress> {
        let mut entry = self.0.first_entry.lock();
        let is_it =
            entry.as_ref().is_some_and(|entry| entry.digest == digest && now < entry.expires_at);
        if is_it { entry.take().map(|entry| entry.email) } else { None }
    }
}
