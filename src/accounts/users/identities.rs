//! Sign-in with the OpenID provider: finding the user of a person, and admitting new users.

use std::net::IpAddr;

use super::{SignUpMode, SignedIn, UserError, Users};
use crate::accounts::oidc::{
    OidcAnswer, OidcError, OidcProvider, OidcSignIn, OidcStart, VerifiedIdentity,
};
use crate::accounts::passwords::Password;
use crate::domain::user::EmailAddress;
use crate::domain::{AccountId, Timestamp, UserId};
use crate::store::{
    Account, IdentityLink, JoinedAccount, NewUser, PasswordHash, User, UserCreated,
};

/// The maximum length of the name of an account, in characters.
const MAX_NAME: usize = 100;
/// The number of letters that make the name of a new account unique.
const SUFFIX: usize = 6;

impl Users {
    /// Returns the OpenID provider, if one is configured.
    pub fn provider(&self) -> Option<&OidcProvider> {
        self.0.context.provider.as_ref()
    }

    /// Starts a sign-in with the provider.
    ///
    /// # Errors
    /// `Oidc` if the provider does not answer.
    pub async fn start_with_provider(&self) -> Result<OidcStart, UserError> {
        Ok(self.provider().ok_or(OidcError::NoProvider)?.start().await?)
    }

    /// Ends a sign-in with the provider's answer.
    ///
    /// # Errors
    /// `Oidc` if the answer is not accepted, and the errors of [`Users::enter_as`].
    pub async fn finish_with_provider(
        &self,
        attempt: Option<&OidcSignIn>,
        answer: OidcAnswer<'_>,
        address: IpAddr,
    ) -> Result<SignedIn, UserError> {
        let provider = self.provider().ok_or(OidcError::NoProvider)?;
        // Only answers of this browser count: another site can make a browser call this page.
        let answer = answer.of(attempt)?;
        self.0.throttle.sign_in(address, self.0.context.clock.now()).await?;
        let person = provider.finish(answer).await?;
        self.enter_as(&person, address).await
    }

    /// Signs in a person whom the provider has verified:
    /// 1. as the user to whom the identity belongs, whatever the address is now;
    /// 2. as the user with the address, to whom the identity then belongs, if both sides have
    ///    confirmed it;
    /// 3. as a new user, who joins the account of the configured rule, the accounts that have
    ///    invited the address or, in open mode, a new account.
    ///
    /// # Errors
    /// `EmailUnconfirmed`, `NotInvited` or `SignUpOff` if none of these applies; `AddressUnproven`
    /// or `OtherPerson` if the user with the address may be another person; `Disabled` if the user
    /// is.
    pub async fn enter_as(
        &self,
        person: &VerifiedIdentity,
        address: IpAddr,
    ) -> Result<SignedIn, UserError> {
        let now = self.0.context.clock.now();
        let user = match self.existing(person, (address, now)).await? {
            Some(user) => user,
            None => self.admitted(person, (address, now)).await?,
        };
        if user.disabled_at.is_some() {
            return Err(UserError::Disabled);
        }
        self.begin_session(&user, now).await
    }

    /// Returns the user with this identity or, after linking it, with the confirmed address.
    async fn existing(
        &self,
        person: &VerifiedIdentity,
        (address, now): (IpAddr, Timestamp),
    ) -> Result<Option<User>, UserError> {
        let store = &self.0.context.store;
        if let Some(user) = store.identity_user(&person.identity).await? {
            return Ok(Some(user));
        }
        let Some(email) = &person.email else { return Ok(None) };
        let Some(user) = store.user_named(email).await? else { return Ok(None) };
        if user.disabled_at.is_some() {
            return Err(UserError::Disabled);
        }
        let audit_context = self.audit_context_of(user.id, address, now);
        match store.link_identity(&audit_context, user.id, &person.identity).await? {
            IdentityLink::Unconfirmed => return Err(UserError::AddressUnproven(email.clone())),
            IdentityLink::OtherIdentity => return Err(UserError::OtherPerson(email.clone())),
            // A concurrent sign-in has given the identity to its user.
            IdentityLink::Linked | IdentityLink::OtherUser | IdentityLink::NoSuchUser => {}
        }
        Ok(store.identity_user(&person.identity).await?)
    }

    /// Creates a user for the person.
    async fn admitted(
        &self,
        person: &VerifiedIdentity,
        (address, now): (IpAddr, Timestamp),
    ) -> Result<User, UserError> {
        let context = &self.0.context;
        let email = person.email.clone().ok_or(UserError::EmailUnconfirmed)?;
        let id = UserId::new(now, context.random.bits());
        let password = self.no_password().await?;
        let user = NewUser { id, email: email.clone(), password, is_confirmed: true };
        let audit_context = self.audit_context_of(id, address, now);
        for joins in self.ways_in(person, &email, now) {
            let created = context
                .store
                .create_identity_user(&audit_context, &user, &person.identity, &joins)
                .await?;
            match created {
                UserCreated::NoSuchInvitation | UserCreated::NameTaken => {}
                UserCreated::NoSuchAccount => return Err(UserError::NoSuchJoinAccount),
                // A concurrent sign-in of the same person has created the user.
                UserCreated::Created | UserCreated::EmailTaken | UserCreated::IdentityTaken => {
                    let user = self.existing(person, (address, now)).await?;
                    return user.ok_or(UserError::EmailTaken);
                }
            }
        }
        match self.0.settings.sign_up {
            SignUpMode::Off => Err(UserError::SignUpOff),
            SignUpMode::Open | SignUpMode::Invitation => Err(UserError::NotInvited(email)),
        }
    }

    /// Returns the ways for a new user to join an account, in the order of preference.
    fn ways_in(
        &self,
        person: &VerifiedIdentity,
        email: &EmailAddress,
        now: Timestamp,
    ) -> Vec<JoinedAccount> {
        let mut ways = Vec::new();
        ways.extend(person.joins.map(|(account, role)| JoinedAccount::Existing(account, role)));
        let mode = self.0.settings.sign_up;
        // Where anyone can sign up, anyone can invite: such a person accepts by the mailed link.
        if mode == SignUpMode::Invitation {
            ways.push(JoinedAccount::InvitedByAddress);
        }
        if mode == SignUpMode::Open {
            let plain: String = email.as_str().chars().take(MAX_NAME).collect();
            let suffix: String = self.token().reveal().chars().take(SUFFIX).collect();
            let short: String = email.as_str().chars().take(MAX_NAME - SUFFIX - 1).collect();
            for name in [plain, format!("{short} {suffix}")] {
                let id = AccountId::new(now, self.0.context.random.bits());
                let plan = self.0.settings.plan.clone();
                ways.push(JoinedAccount::New(Account { plan, ..Account::new(id, name, now) }));
            }
        }
        ways
    }

    /// Returns the hash of a random password that is not kept. The user therefore has no password,
    /// and can set one by the reset of a forgotten password.
    async fn no_password(&self) -> Result<PasswordHash, UserError> {
        let password = Password::new(self.token().reveal())?;
        Ok(self.0.passwords.hash(&password).await?)
    }
}
