//! Sign-up, sign-in and sign-out.

use std::net::IpAddr;

use super::{SignUpMode, SignedInRequest, UserError, Users};
use crate::accounts::operators::checked_name;
use crate::accounts::passwords::{Password, PasswordVerdict};
use crate::domain::token::Token;
use crate::domain::user::EmailAddress;
use crate::domain::{AccountId, SessionId, Timestamp, UserId};
use crate::store::{
    Account, JoinedAccount, NewSession, NewUser, PasswordHash, SessionEnding, User, UserCreated,
};

/// The input of a sign-up.
#[derive(Clone, Copy, Debug)]
pub struct SignUp<'a> {
    /// The e-mail address.
    pub email: &'a str,
    /// The password.
    pub password: &'a Password,
    /// The name of the new account; ignored with an invitation.
    pub account: &'a str,
    /// The token of the invitation, if there is one.
    pub invitation: Option<&'a str>,
    /// The address of the client.
    pub address: IpAddr,
}

/// The input of a sign-in.
#[derive(Clone, Copy, Debug)]
pub struct SignIn<'a> {
    /// The e-mail address.
    pub email: &'a str,
    /// The password.
    pub password: &'a str,
    /// The address of the client.
    pub address: IpAddr,
    /// The client's previous session token, whose session ends.
    pub previous: Option<&'a Token>,
}

/// A new session. Only this value contains its token.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// The token that the client sends from now on.
    pub token: Token,
    /// The user who signed in.
    pub user: UserId,
    /// The time at which the session ends even if it is in use.
    pub ends_at: Timestamp,
}

impl Users {
    /// Creates a user, who joins the account of the invitation or a new account. The user can then
    /// sign in.
    ///
    /// A sign-up reveals that an address already has a user, either to a person invited with that
    /// address or to anyone if sign-up is open. Hiding it would require a mail for every sign-up,
    /// which not every installation can send. Sign-ups are therefore rate limited by client
    /// address.
    ///
    /// # Errors
    /// If sign-up is not allowed or the input is invalid.
    pub async fn sign_up(&self, sign_up: SignUp<'_>) -> Result<UserId, UserError> {
        let context = &self.0.context;
        let now = context.clock.now();
        let joins = match (self.0.settings.sign_up, sign_up.invitation) {
            (SignUpMode::Off, _) => return Err(UserError::SignUpOff),
            (SignUpMode::Invitation, None) => return Err(UserError::InvitationNeeded),
            (_, Some(token)) => {
                let token: Token = token.parse().map_err(|_| UserError::InvalidLink)?;
                JoinedAccount::Invited(token.digest())
            }
            (SignUpMode::Open, None) => {
                let name = checked_name(sign_up.account);
                let name = name.map_err(|error| UserError::Name(error.to_string()))?;
                let id = AccountId::new(now, context.random.bits());
                let plan = self.0.settings.plan.clone();
                JoinedAccount::New(Account { plan, ..Account::new(id, name, now) })
            }
        };
        let email = sign_up.email.parse()?;
        self.0.throttle.open(sign_up.address, now).await?;
        let id = UserId::new(now, context.random.bits());
        let password = self.0.passwords.hash(sign_up.password).await?;
        // The link of an invitation was sent to the address.
        let is_confirmed = matches!(joins, JoinedAccount::Invited(_));
        let user = NewUser { id, email, password, is_confirmed };
        // The author of the change is the new user.
        let audit_context = self.audit_context_of(id, sign_up.address, now);
        match context.store.create_user(&audit_context, &user, &joins).await? {
            UserCreated::Created => Ok(id),
            UserCreated::EmailTaken | UserCreated::IdentityTaken => Err(UserError::EmailTaken),
            UserCreated::NameTaken => {
                Err(UserError::Name("an account with this name already exists".to_owned()))
            }
            UserCreated::NoSuchAccount => Err(UserError::NoSuchAccount),
            UserCreated::NoSuchInvitation => Err(UserError::InvalidLink),
        }
    }

    /// Creates a session for a user's address and password.
    ///
    /// # Errors
    /// `WrongCredentials` for a wrong address or password. For well-formed input, both cases take
    /// the same work.
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

    /// Returns the user if the password is right and the user is enabled. Only a wrong password
    /// counts as an attempt; a right one, or one that could not be checked, is given back.
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
            self.0.throttle.refund_sign_in(email, version, now).await;
        }
        judged
    }

    /// Returns the user if the password is right and the user is enabled. Hashes the password again
    /// if its hash has an outdated work factor.
    async fn judged(
        &self,
        user: Option<User>,
        password: &Password,
    ) -> Result<Option<User>, UserError> {
        let hash: Option<&PasswordHash> = user.as_ref().map(|user| &user.password);
        let verdict = self.0.passwords.verify(password, hash).await?;
        let Some(user) = user.filter(|user| user.disabled_at.is_none()) else { return Ok(None) };
        match verdict {
            PasswordVerdict::Wrong => return Ok(None),
            PasswordVerdict::Right => {}
            PasswordVerdict::Outdated => {
                let hash = self.0.passwords.hash(password).await?;
                let store = &self.0.context.store;
                store.rehash_password(user.id, user.password_version, &hash).await?;
            }
        }
        Ok(Some(user))
    }

    pub(super) async fn begin_session(
        &self,
        user: &User,
        now: Timestamp,
    ) -> Result<SignedIn, UserError> {
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
        // `false` means that the password was changed or the user disabled a moment ago.
        if context.store.create_session(now, &session).await? {
            Ok(SignedIn { token, user: user.id, ends_at })
        } else {
            Err(UserError::WrongCredentials)
        }
    }

    /// Ends the session with this token, if it exists.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn sign_out(&self, token: &Token, address: IpAddr) -> Result<(), UserError> {
        let context = &self.0.context;
        let now = context.clock.now();
        if let Some(session) = context.store.session(token.digest(), now).await? {
            let audit_context = self.audit_context_of(session.user, address, now);
            context
                .store
                .end_sessions(&audit_context, session.user, SessionEnding::One(session.id))
                .await?;
        }
        Ok(())
    }

    /// Ends all sessions of the user, including this one.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn sign_out_everywhere(&self, visit: &SignedInRequest) -> Result<(), UserError> {
        let context = &self.0.context;
        let audit_context = self.audit_context(visit, context.clock.now());
        Ok(context
            .store
            .end_sessions(&audit_context, visit.session.user, SessionEnding::All)
            .await?)
    }
}
