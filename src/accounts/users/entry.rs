//! Signing up, in and out.

use std::net::IpAddr;

use super::{SignUpMode, UserError, Users, Visit};
use crate::accounts::operators::checked_name;
use crate::accounts::passwords::{Password, Verdict};
use crate::domain::token::Token;
use crate::domain::user::EmailAddress;
use crate::domain::{AccountId, SessionId, Timestamp, UserId};
use crate::store::{Account, Ending, Joins, NewSession, NewUser, PasswordHash, User, UserCreated};

/// What somebody types to become a user.
#[derive(Clone, Copy, Debug)]
pub struct SignUp<'a> {
    /// The e-mail address.
    pub email: &'a str,
    /// The password.
    pub password: &'a Password,
    /// The name of an account to make; not used by who is invited.
    pub account: &'a str,
    /// The token of the invitation, if there is one.
    pub invitation: Option<&'a str>,
    /// The address of the client.
    pub address: IpAddr,
}

/// What somebody types to sign in.
#[derive(Clone, Copy, Debug)]
pub struct SignIn<'a> {
    /// The e-mail address.
    pub email: &'a str,
    /// The password.
    pub password: &'a str,
    /// The address of the client.
    pub address: IpAddr,
    /// The token that the client has shown, which is not used on.
    pub previous: Option<&'a Token>,
}

/// A session that was made. Its token is here and nowhere else.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// What the client is to show from now on.
    pub token: Token,
    /// Who signed in.
    pub user: UserId,
    /// From when on the session is refused in any case.
    pub ends_at: Timestamp,
}

impl Users {
    /// Makes a user, who belongs to the account that the invitation is for, or to a new one. The
    /// user can sign in then.
    ///
    /// That there is such a user already is told, to who is invited as that user or where everybody may
    /// sign up: nobody could sign up otherwise without a mail, which not every installation can send. So it is
    /// counted, by client address.
    ///
    /// # Errors
    /// If that is not allowed here, or what was typed cannot be used.
    pub async fn sign_up(&self, sign_up: SignUp<'_>) -> Result<UserId, UserError> {
        let context = &self.0.context;
        let now = context.clock.now();
        let joins = match (self.0.settings.sign_up, sign_up.invitation) {
            (SignUpMode::Off, _) => return Err(UserError::SignUpOff),
            (SignUpMode::Invitation, None) => return Err(UserError::InvitationNeeded),
            (_, Some(token)) => {
                let token: Token = token.parse().map_err(|_| UserError::InvalidLink)?;
                Joins::Invited(token.digest())
            }
            (SignUpMode::Open, None) => {
                let name = checked_name(sign_up.account);
                let name = name.map_err(|error| UserError::Name(error.to_string()))?;
                let id = AccountId::new(now, context.random.bits());
                let plan = self.0.settings.plan.clone();
                Joins::New(Account { plan, ..Account::new(id, name, now) })
            }
        };
        let email = sign_up.email.parse()?;
        self.0.throttle.open(sign_up.address, now).await?;
        let id = UserId::new(now, context.random.bits());
        let password = self.0.passwords.hash(sign_up.password).await?;
        let user = NewUser { id, email, password };
        // The user who is made signs up, nobody else.
        let act = self.act_of(id, sign_up.address, now);
        match context.store.create_user(&act, &user, &joins).await? {
            UserCreated::Created => Ok(id),
            UserCreated::EmailTaken => Err(UserError::EmailTaken),
            UserCreated::NameTaken => {
                Err(UserError::Name("there is an account with this name already".to_owned()))
            }
            UserCreated::NoSuchAccount => Err(UserError::NoSuchAccount),
            UserCreated::NoSuchInvitation => Err(UserError::InvalidLink),
        }
    }

    /// Makes a session for who shows an address and its password.
    ///
    /// # Errors
    /// `WrongCredentials` whatever of it is wrong, after as much work.
    pub async fn sign_in(&self, sign_in: SignIn<'_>) -> Result<SignedIn, UserError> {
        let now = self.0.context.clock.now();
        let typed = sign_in.email.parse::<EmailAddress>().ok();
        let typed = typed.zip(Password::new(sign_in.password).ok());
        self.0.throttle.sign_in(sign_in.address, now).await?;
        let (email, password) = typed.ok_or(UserError::WrongCredentials)?;
        let user = self.0.context.store.user_named(&email).await?;
        let user = self.verified(&email, user, &password, now).await?;
        let user = user.ok_or(UserError::WrongCredentials)?;
        let signed_in = self.begin_session(&user, now).await?;
        if let Some(previous) = sign_in.previous {
            self.sign_out(previous, sign_in.address).await?;
        }
        Ok(signed_in)
    }

    /// The user with this address, if it is the password and the user is not disabled. A try counts
    /// if it was wrong; not if it was right, or could not be judged, which is nobody's guess.
    pub(super) async fn verified(
        &self,
        email: &EmailAddress,
        user: Option<User>,
        password: &Password,
        now: Timestamp,
    ) -> Result<Option<User>, UserError> {
        let version = user.as_ref().map_or(0, |user| user.password_version);
        self.0.throttle.password(email, version, now).await?;
        let judged = self.judged(user, password).await;
        if !matches!(judged, Ok(None)) {
            self.0.throttle.was_not_wrong(email, version, now).await;
        }
        judged
    }

    /// The user, if it is the password and the user is not disabled; whose hash is made anew if it
    /// was too little work.
    async fn judged(
        &self,
        user: Option<User>,
        password: &Password,
    ) -> Result<Option<User>, UserError> {
        let hash: Option<&PasswordHash> = user.as_ref().map(|user| &user.password);
        let verdict = self.0.passwords.verify(password, hash).await?;
        let Some(user) = user.filter(|user| user.disabled_at.is_none()) else { return Ok(None) };
        match verdict {
            Verdict::Wrong => return Ok(None),
            Verdict::Right => {}
            Verdict::Outdated => {
                let hash = self.0.passwords.hash(password).await?;
                let store = &self.0.context.store;
                store.rehash_password(user.id, user.password_version, &hash).await?;
            }
        }
        Ok(Some(user))
    }

    async fn begin_session(&self, user: &User, now: Timestamp) -> Result<SignedIn, UserError> {
        let (context, settings) = (&self.0.context, &self.0.settings);
        let token = self.token();
        let ends_at = now.plus(settings.session_lifetime);
        let session = NewSession {
            id: SessionId::new(now, context.random.bits()),
            user: user.id,
            password_version: user.password_version,
            digest: token.digest(),
            expires_at: now.plus(settings.session_idle).min(ends_at),
            ends_at,
        };
        // Else the password was changed, or the user disabled, a moment ago.
        if context.store.create_session(now, &session).await? {
            Ok(SignedIn { token, user: user.id, ends_at })
        } else {
            Err(UserError::WrongCredentials)
        }
    }

    /// Ends the session with this token, if there is one.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn sign_out(&self, token: &Token, address: IpAddr) -> Result<(), UserError> {
        let context = &self.0.context;
        let now = context.clock.now();
        if let Some(session) = context.store.session(token.digest(), now).await? {
            let act = self.act_of(session.user, address, now);
            context.store.end_sessions(&act, session.user, Ending::One(session.id)).await?;
        }
        Ok(())
    }

    /// Ends all sessions of the user of this one, this one too.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn sign_out_everywhere(&self, visit: &Visit) -> Result<(), UserError> {
        let context = &self.0.context;
        let act = self.act(visit, context.clock.now());
        Ok(context.store.end_sessions(&act, visit.session.user, Ending::All).await?)
    }
}
