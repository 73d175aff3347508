//! Changing a password, and setting a forgotten one anew.

use std::net::IpAddr;
use std::time::Duration;

use super::{Inner, UserError, Users, Visit, link, reset_mail};
use crate::accounts::passwords::{HashError, Password};
use crate::domain::ResetId;
use crate::domain::token::Token;
use crate::domain::user::EmailAddress;
use crate::runtime::TaskKind;
use crate::store::NewReset;

/// How long a mailed link to set a password anew works.
const RESET_FOR: Duration = Duration::from_secs(3_600);
/// The page where that is done.
const RESET_PAGE: &str = "reset";

impl Users {
    /// Changes the password of the user of a session, who shows the present one. All other sessions
    /// of the user end.
    ///
    /// # Errors
    /// `WrongCredentials` if it is not the present one.
    pub async fn change_password(
        &self,
        visit: &Visit,
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
        // Only the password that was verified: another change may have come first.
        let (version, keep) = (Some(user.password_version), Some(session.id));
        let act = self.act(visit, now);
        let set = context.store.set_password(&act, user.id, version, &hash, keep).await?;
        if set { Ok(()) } else { Err(UserError::WrongCredentials) }
    }

    /// Mails a link to set the password anew to who has forgotten it. The answer is the same, and
    /// comes as soon, if there is no such user: what has to be looked up is looked up afterwards.
    ///
    /// # Errors
    /// `NoMail` if no mail can be sent from here; `Address` if it is none.
    pub async fn request_reset(&self, email: &str, address: IpAddr) -> Result<(), UserError> {
        self.mail()?;
        let email: EmailAddress = email.parse()?;
        let now = self.0.context.clock.now();
        self.0.throttle.open(address, now).await?;
        self.0.throttle.reset(&email, now).await?;
        let place = self.0.resets.clone().try_acquire_owned().map_err(|_| HashError::Busy)?;
        let users = self.clone();
        self.0.context.tasks.spawn(TaskKind::Command, async move {
            let sent = users.mail_reset(email).await;
            if let Err(error) = sent {
                tracing::warn!(%error, "a link to set a password anew was not mailed");
            }
            drop(place);
        });
        Ok(())
    }

    async fn mail_reset(&self, email: EmailAddress) -> Result<(), UserError> {
        let Inner { context, .. } = &*self.0;
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

    /// Sets a password anew by the token of a mailed link. All sessions of the user end.
    ///
    /// # Errors
    /// `InvalidLink` if it was used, replaced, or has expired.
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
        let act = self.act_of(user, address, now);
        let user = context.store.complete_reset(&act, digest, &hash).await?;
        user.map(|_| ()).ok_or(UserError::InvalidLink)
    }
}
