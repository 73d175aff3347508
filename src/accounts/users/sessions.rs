//! Sessions and the authorization of their users.

use std::net::IpAddr;
use std::time::Duration;

use super::{UserError, Users};
use crate::domain::audit::{Actor, Author, Origin};
use crate::domain::token::Token;
use crate::domain::user::Role;
use crate::domain::{AccountId, AuditId, Timestamp, UserId};
use crate::store::{AuditContext, Membership, Session};

/// The minimum extension of a session that is written to the store.
const WORTHWHILE: Duration = Duration::from_secs(60);

/// A request of a signed-in user.
#[derive(Clone, Debug)]
pub struct SignedInRequest {
    /// The user's session.
    pub session: Session,
    /// The client's address, for the audit log.
    pub address: IpAddr,
}

impl Users {
    /// Looks up the session with this token for a request from `address`. The request extends the
    /// session up to its maximum lifetime.
    ///
    /// # Errors
    /// `SignedOut` if the session does not exist any more.
    pub async fn visit(
        &self,
        token: &Token,
        address: IpAddr,
    ) -> Result<SignedInRequest, UserError> {
        let (context, settings) = (&self.0.context, &self.0.settings);
        let now = context.clock.now();
        let SignedInRequest { session, .. } = self.visit_unattended(token, address).await?;
        let expires_at = now.plus(settings.session_idle).min(session.ends_at);
        if expires_at.since(session.expires_at) < WORTHWHILE {
            return Ok(SignedInRequest { session, address });
        }
        context.store.extend_session(now, session.id, expires_at).await?;
        Ok(SignedInRequest { session: Session { expires_at, ..session }, address })
    }

    /// Looks up the session with this token for a request that a page makes by itself. The request
    /// does not extend the session: a forgotten tab would otherwise keep it until its maximum
    /// lifetime.
    ///
    /// # Errors
    /// `SignedOut` if the session does not exist any more.
    pub async fn visit_unattended(
        &self,
        token: &Token,
        address: IpAddr,
    ) -> Result<SignedInRequest, UserError> {
        let context = &self.0.context;
        let session = context.store.session(token.digest(), context.clock.now()).await?;
        Ok(SignedInRequest { session: session.ok_or(UserError::SignedOut)?, address })
    }

    /// Returns the audit data for a change by the signed-in user.
    pub(super) fn audit_context(&self, visit: &SignedInRequest, now: Timestamp) -> AuditContext {
        self.audit_context_of(visit.session.user, visit.address, now)
    }

    /// Returns the audit data for a change by a user from this address.
    pub(super) fn audit_context_of(
        &self,
        user: UserId,
        address: IpAddr,
        now: Timestamp,
    ) -> AuditContext {
        let author = Author { actor: Actor::User(user), origin: Origin::Client(address) };
        AuditContext { now, author, entry: AuditId::new(now, self.0.context.random.bits()) }
    }

    /// Returns the sessions of the user, newest first.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn sessions(&self, visit: &SignedInRequest) -> Result<Vec<Session>, UserError> {
        let context = &self.0.context;
        Ok(context.store.sessions(visit.session.user, context.clock.now()).await?)
    }

    /// Returns the accounts that the user belongs to, by name.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn memberships(&self, visit: &SignedInRequest) -> Result<Vec<Membership>, UserError> {
        Ok(self.0.context.store.memberships(visit.session.user).await?)
    }

    /// Returns the user's role in an account if it allows at least `needed`.
    ///
    /// # Errors
    /// `NoSuchAccount` if the user is not a member; `Forbidden` if the role is too low.
    pub async fn authorize(
        &self,
        visit: &SignedInRequest,
        account: AccountId,
        needed: Role,
    ) -> Result<Role, UserError> {
        let role = self.0.context.store.role(account, visit.session.user).await?;
        let role = role.ok_or(UserError::NoSuchAccount)?;
        if role.allows(needed) { Ok(role) } else { Err(UserError::Forbidden(needed)) }
    }
}
