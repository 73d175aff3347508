//! Password change, and reset of a forgotten password.

use std::net::IpAddr;
use std::time::Duration;

use super::{SignedInRequest, UserError, Users, UsersInner, link, reset_mail};
use crate::accounts::passwords::{HashError, Password};
use crate::domain::ResetId;
use crate::domain::token::Token;
use crate::domain::user::EmailAddress;
use crate::runtime::TaskKind;
use crate::store::NewReset;

/// The lifetime of a mailed reset link.
const RESET_FOR: Duration = Duration::from_secs(3_600);
/// The path of the page that resets a password.
const RESET_PAGE: &str = "reset";

impl Users {
    /// Changes the password of the session's user, who must give the current one. All other
    /// sessions of the user end.
    ///
    /// # Errors
    /// `WrongCredentials` if the current password is wrong.
    pub async fn change_password(
        &self,
        visit: &SignedInRequest,
        present: &str,
        new: &Password,
    ) -> Result<(), UserError> {
        let (context, session) = (&self.0.context, &visit.session);
        let present = Password::new(present).map_err(|_| UserError::WrongCredentials)?;
        let user = context.store.user(session.user).await?;
        let now = context.clock.now();
        let user = self.verified(&session.email, user, &present, now).await?;
        let user = user.ok_or(UserError::WrongCredentials)?;
        let hash = self.0.passwords.hash(new).await?;
        // Replace only the verified password, because another change may have come first.
        let (version, keep) = (Some(user.password_version), Some(session.id));
        let audit_context = self.audit_context(visit, now);
        let set = context.store.set_password(&audit_context, user.id, version, &hash, keep).await?;
        if set { Ok(()) } else { Err(UserError::WrongCredentials) }
    }

    /// Mails a password reset link. The lookup of the user runs in the background, so neither the
    /// answer nor its duration reveals whether the user exists.
    ///
    /// # Errors
    /// `NoMail` if mail is not configured; `Address` if the address is invalid.
    pub async fn request_reset(&self, email: &str, address: IpAddr) -> Result<(), UserError> {
        self.mail()?;
        let email: EmailAddress = email.parse()?;
        let now = self.0.context.clock.now();
        self.0.throttle.open(address, now).await?;
        self.0.throttle.reset(&email, now).await?;
        let permit = self.0.resets.clone().try_acquire_owned().map_err(|_| HashError::Busy)?;
        let users = self.clone();
        self.0.context.tasks.spawn(TaskKind::Command, async move {
            let sent = users.mail_reset(email).await;
            if let Err(error) = sent {
                tracing::warn!(%error, "could not mail a password reset link");
            }
            drop(permit);
        });
        Ok(())
    }

    async fn mail_reset(&self, email: EmailAddress) -> Result<(), UserError> {
        let UsersInner { context, .. } = &*self.0;
        let (mailer, public_url) = self.mail()?;
        let Some(user) = context.store.user_named(&email).await? else { return Ok(()) };
        let (now, token) = (context.clock.now(), self.token());
        let reset = NewReset {
            id: ResetId::new(now, context.random.bits()),
            user: user.id,
            digest: token.digest(),
            expires_at: now.plus(RESET_FOR),
        };
        if context.store.create_reset(now, &reset).await? {
            mailer.send(&reset_mail(email, &link(public_url, RESET_PAGE, &token))).await?;
        }
        Ok(())
    }

    /// Resets a password with the token of a mailed link. All sessions of the user end.
    ///
    /// # Errors
    /// `InvalidLink` if the link was used, replaced, or has expired.
    pub async fn complete_reset(
        &self,
        token: &str,
        new: &Password,
        address: IpAddr,
    ) -> Result<(), UserError> {
        let context = &self.0.context;
        let now = context.clock.now();
        self.0.throttle.open(address, now).await?;
        let token: Token = token.parse().map_err(|_| UserError::InvalidLink)?;
        let digest = token.digest();
        let user = context.store.reset(digest, now).await?.ok_or(UserError::InvalidLink)?;
        let hash = self.0.passwords.hash(new).await?;
        let audit_context = self.audit_context_of(user, address, now);
        let user = context.store.complete_reset(&audit_context, digest, &hash).await?;
        user.map(|_| ()).ok_or(UserError::InvalidLink)
    }
}
