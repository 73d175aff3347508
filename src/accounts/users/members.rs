//! Members of an account, and invitations.

use std::time::Duration;

use super::{SignedInRequest, UserError, Users, invitation_mail, link};
use crate::domain::token::Token;
use crate::domain::user::{EmailAddress, Role};
use crate::domain::{AccountId, InvitationId, Timestamp, UserId};
use crate::store::{
    AccountMember, AuditContext, Invitation, MemberChange, MemberChanged, NewInvitation,
    WriteContext,
};

/// The lifetime of an invitation.
pub(in crate::accounts) const INVITED_FOR: Duration = Duration::from_secs(7 * 86_400);
/// The path of the page that accepts an invitation.
pub(in crate::accounts) const INVITATION_PAGE: &str = "invitation";

impl Users {
    /// Returns the members of an account. Every member may call this.
    ///
    /// # Errors
    /// The errors of [`Users::authorize`].
    pub async fn members(
        &self,
        visit: &SignedInRequest,
        account: AccountId,
    ) -> Result<Vec<AccountMember>, UserError> {
        self.authorize(visit, account, Role::Viewer).await?;
        Ok(self.0.context.store.members(account).await?)
    }

    /// Changes a member's role. Only owners may call this.
    ///
    /// # Errors
    /// `LastOwner` if the account would have no owner.
    pub async fn set_role(
        &self,
        visit: &SignedInRequest,
        account: AccountId,
        user: UserId,
        role: Role,
    ) -> Result<(), UserError> {
        self.authorize(visit, account, Role::Owner).await?;
        self.change(visit, account, user, MemberChange::Set(role)).await
    }

    /// Removes a member. Owners may remove any member; every member may leave.
    ///
    /// # Errors
    /// `LastOwner` if the account would have no owner.
    pub async fn remove_member(
        &self,
        visit: &SignedInRequest,
        account: AccountId,
        user: UserId,
    ) -> Result<(), UserError> {
        let needed = if user == visit.session.user { Role::Viewer } else { Role::Owner };
        self.authorize(visit, account, needed).await?;
        self.change(visit, account, user, MemberChange::Remove).await
    }

    async fn change(
        &self,
        visit: &SignedInRequest,
        account: AccountId,
        user: UserId,
        change: MemberChange,
    ) -> Result<(), UserError> {
        let context = &self.0.context;
        let write = self.write(visit, account, context.clock.now());
        match context.store.change_member(&write, user, change).await? {
            MemberChanged::Done => Ok(()),
            MemberChanged::NoSuchMember => Err(UserError::NoSuchMember),
            MemberChanged::LastOwner => Err(UserError::LastOwner),
        }
    }

    /// Mails an invitation, which replaces an earlier one to the same address. Only owners may call
    /// this. The invitation works once, within a week, for a user with that address.
    ///
    /// # Errors
    /// `NoMail` if mail is not configured.
    pub async fn invite(
        &self,
        visit: &SignedInRequest,
        account: AccountId,
        email: &str,
        role: Role,
    ) -> Result<InvitationId, UserError> {
        self.authorize(visit, account, Role::Owner).await?;
        let (mailer, public_url) = self.mail()?;
        let email: EmailAddress = email.parse()?;
        let context = &self.0.context;
        let now = context.clock.now();
        self.0.throttle.invitation(account, now).await?;
        let name = context.store.account(account).await?.ok_or(UserError::NoSuchAccount)?.name;
        let token = self.token();
        let invitation = NewInvitation {
            id: InvitationId::new(now, context.random.bits()),
            email: email.clone(),
            role,
            digest: token.digest(),
            expires_at: now.plus(INVITED_FOR),
        };
        let write = self.write(visit, account, now);
        if !context.store.create_invitation(&write, &invitation).await? {
            return Err(UserError::NoSuchAccount);
        }
        let link = link(public_url, INVITATION_PAGE, &token);
        mailer.send(&invitation_mail(email, &name, &link)).await?;
        Ok(invitation.id)
    }

    /// Returns the pending invitations, newest first. Only owners may call this.
    ///
    /// # Errors
    /// The errors of [`Users::authorize`].
    pub async fn invitations(
        &self,
        visit: &SignedInRequest,
        account: AccountId,
    ) -> Result<Vec<Invitation>, UserError> {
        self.authorize(visit, account, Role::Owner).await?;
        let context = &self.0.context;
        Ok(context.store.invitations(account, context.clock.now()).await?)
    }

    /// Deletes an invitation. Only owners may call this.
    ///
    /// # Errors
    /// `NoSuchMember` if there is no invitation with this id.
    pub async fn take_back_invitation(
        &self,
        visit: &SignedInRequest,
        account: AccountId,
        id: InvitationId,
    ) -> Result<(), UserError> {
        self.authorize(visit, account, Role::Owner).await?;
        let context = &self.0.context;
        let write = self.write(visit, account, context.clock.now());
        let gone = context.store.delete_invitation(&write, id).await?;
        if gone { Ok(()) } else { Err(UserError::NoSuchMember) }
    }

    /// Accepts an invitation to the address of the session's user. Returns the account.
    ///
    /// # Errors
    /// `InvalidLink` if the invitation is for another address, was used, or has expired.
    pub async fn accept_invitation(
        &self,
        visit: &SignedInRequest,
        token: &str,
    ) -> Result<AccountId, UserError> {
        let context = &self.0.context;
        let token: Token = token.parse().map_err(|_| UserError::InvalidLink)?;
        let (now, digest) = (context.clock.now(), token.digest());
        let account = context
            .store
            .accept_invitation(&self.audit_context(visit, now), visit.session.user, digest)
            .await?;
        account.ok_or(UserError::InvalidLink)
    }

    fn write(&self, visit: &SignedInRequest, account: AccountId, now: Timestamp) -> WriteContext {
        let AuditContext { now, author, entry } = self.audit_context(visit, now);
        WriteContext { account, now, author, entry, idempotency: None }
    }
}
