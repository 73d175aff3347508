//! The operator commands for users and members of accounts.

use super::operators::{AccountError, Accounts};
use super::passwords::Password;
use super::users::{INVITATION_PAGE, INVITED_FOR, link};
use crate::domain::audit::Author;
use crate::domain::token::Token;
use crate::domain::user::{EmailAddress, Role};
use crate::domain::{InvitationId, UserId};
use crate::store::{
    Account, AccountMember, JoinedAccount, MemberChange, MemberChanged, NewInvitation, NewUser,
    SessionEnding, User, UserCreated,
};

/// The length of a generated password in characters: 144 random bits.
const MADE_LETTERS: usize = 24;

impl Accounts {
    /// Returns a random password.
    pub fn new_password(&self) -> Password {
        let letters: String = self.new_token().reveal().chars().take(MADE_LETTERS).collect();
        Password::new(&letters).expect("it is long enough")
    }

    fn new_token(&self) -> Token {
        Token::new(|bytes| self.random.fill(bytes))
    }

    /// Creates a user, who joins `account` if one is given.
    pub async fn create_user(
        &self,
        author: Author,
        email: &EmailAddress,
        password: &Password,
        account: Option<(&Account, Role)>,
    ) -> Result<UserId, AccountError> {
        let now = self.clock.now();
        let id = UserId::new(now, self.random.bits());
        let password = self.passwords.hash(password).await?;
        let user = NewUser { id, email: email.clone(), password, is_confirmed: true };
        let joins = account.map_or(JoinedAccount::Nothing, |(account, role)| {
            JoinedAccount::Existing(account.id, role)
        });
        match self.store.create_user(&self.audit_context(author, now), &user, &joins).await? {
            UserCreated::Created => Ok(id),
            UserCreated::EmailTaken => Err(AccountError::EmailTaken(email.clone())),
            _ => {
                let name = account.map(|(account, _)| account.name.clone()).unwrap_or_default();
                Err(AccountError::NoSuchAccount(name))
            }
        }
    }

    /// Returns all users, by address.
    pub async fn users(&self) -> Result<Vec<User>, AccountError> {
        Ok(self.store.users().await?)
    }

    /// Returns the user with this address.
    async fn user_named(&self, email: &EmailAddress) -> Result<User, AccountError> {
        let user = self.store.user_named(email).await?;
        user.ok_or_else(|| AccountError::NoSuchUser(email.clone()))
    }

    /// Disables or enables a user. A disabled user loses all sessions and cannot sign in.
    pub async fn disable_user(
        &self,
        author: Author,
        email: &EmailAddress,
        disabled: bool,
    ) -> Result<(), AccountError> {
        let user = self.user_named(email).await?;
        let audit_context = self.audit_context(author, self.clock.now());
        self.store.disable_user(&audit_context, user.id, disabled).await?;
        Ok(())
    }

    /// Records that the address of a user is confirmed, so that the person can sign in with the
    /// OpenID provider.
    pub async fn confirm_email(
        &self,
        author: Author,
        email: &EmailAddress,
    ) -> Result<(), AccountError> {
        let user = self.user_named(email).await?;
        let audit_context = self.audit_context(author, self.clock.now());
        self.store.confirm_email(&audit_context, user.id).await?;
        Ok(())
    }

    /// Removes the links of a user to people at the OpenID provider. All sessions of the user end.
    pub async fn unlink(&self, author: Author, email: &EmailAddress) -> Result<(), AccountError> {
        let user = self.user_named(email).await?;
        let audit_context = self.audit_context(author, self.clock.now());
        self.store.unlink_identities(&audit_context, user.id).await?;
        Ok(())
    }

    /// Makes a user an operator, who may see the installation report, or takes that role
    /// away.
    pub async fn set_operator(
        &self,
        author: Author,
        email: &EmailAddress,
        is_operator: bool,
    ) -> Result<(), AccountError> {
        let user = self.user_named(email).await?;
        let audit_context = self.audit_context(author, self.clock.now());
        self.store.set_operator(&audit_context, user.id, is_operator).await?;
        Ok(())
    }

    /// Sets a user's password. All sessions of the user end.
    pub async fn set_password(
        &self,
        author: Author,
        email: &EmailAddress,
        password: &Password,
    ) -> Result<(), AccountError> {
        let user = self.user_named(email).await?;
        let hash = self.passwords.hash(password).await?;
        let audit_context = self.audit_context(author, self.clock.now());
        self.store.set_password(&audit_context, user.id, None, &hash, None).await?;
        Ok(())
    }

    /// Ends all sessions of a user.
    pub async fn sign_out(&self, author: Author, email: &EmailAddress) -> Result<(), AccountError> {
        let user = self.user_named(email).await?;
        let audit_context = self.audit_context(author, self.clock.now());
        Ok(self.store.end_sessions(&audit_context, user.id, SessionEnding::All).await?)
    }

    /// Returns the members of an account, by address.
    pub async fn members(&self, account: &Account) -> Result<Vec<AccountMember>, AccountError> {
        Ok(self.store.members(account.id).await?)
    }

    /// Changes the role of a member or removes the member.
    pub async fn change_member(
        &self,
        author: Author,
        account: &Account,
        email: &EmailAddress,
        change: MemberChange,
    ) -> Result<(), AccountError> {
        let user = self.user_named(email).await?;
        let write = self.write(account.id, author, self.clock.now());
        match self.store.change_member(&write, user.id, change).await? {
            MemberChanged::Done => Ok(()),
            MemberChanged::NoSuchMember => {
                Err(AccountError::NoSuchMember(email.clone(), account.name.clone()))
            }
            MemberChanged::LastOwner => Err(AccountError::LastOwner(account.name.clone())),
        }
    }

    /// Creates an invitation, which replaces an earlier one to the same address. Returns the link
    /// to accept it, which works once and within a week; the operator passes it to the invited
    /// person.
    pub async fn invite(
        &self,
        author: Author,
        account: &Account,
        email: &EmailAddress,
        role: Role,
        public_url: &str,
    ) -> Result<String, AccountError> {
        let (now, token) = (self.clock.now(), self.new_token());
        let invitation = NewInvitation {
            id: InvitationId::new(now, self.random.bits()),
            email: email.clone(),
            role,
            digest: token.digest(),
            expires_at: now.plus(INVITED_FOR),
        };
        let write = self.write(account.id, author, now);
        if self.store.create_invitation(&write, &invitation).await? {
            Ok(link(public_url, INVITATION_PAGE, &token))
        } else {
            Err(AccountError::NoSuchAccount(account.name.clone()))
        }
    }
}
