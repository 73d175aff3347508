//! Who has signed in, and what they may do.

use std::net::IpAddr;
use std::time::Duration;

use super::{UserError, Users};
use crate::domain::audit::{Actor, Author, Origin};
use crate::domain::token::Token;
use crate::domain::user::Role;
use crate::domain::{AccountId, AuditId, Timestamp, UserId};
use crate::store::{Act, Membership, Session};

/// How much longer a session has to live by a use for the store to be told.
const WORTHWHILE: Duration = Duration::from_secs(60);

/// A call of somebody who has signed in.
#[derive(Clone, Debug)]
pub struct Visit {
    /// Who it is.
    pub session: Session,
    /// The client's address, for the audit log.
    pub address: IpAddr,
}

impl Users {
    /// A call from `address` under the session with this token. That it is used lets the session live
    /// on, up to its end.
    ///
    /// # Errors
    /// `SignedOut` if there is none any more.
    pub async fn visit(&self, token: &Token, address: IpAddr) -> Result<Visit, UserError> {
        let (context, settings) = (&self.0.context, &self.0.settings);
        let now = context.clock.now();
        let session = context.store.session(token.digest(), now).await?;
        let session = session.ok_or(UserError::SignedOut)?;
        let expires_at = now.plus(settings.session_idle).min(session.ends_at);
        if expires_at.since(session.expires_at) < WORTHWHILE {
            return Ok(Visit { session, address });
        }
        context.store.extend_session(now, session.id, expires_at).await?;
        Ok(Visit { session: Session { expires_at, ..session }, address })
    }

    /// A change that is made by who has signed in.
    pub(super) fn act(&self, visit: &Visit, now: Timestamp) -> Act {
        self.act_of(visit.session.user, visit.address, now)
    }

    /// A change that a user makes from this address.
    pub(super) fn act_of(&self, user: UserId, address: IpAddr, now: Timestamp) -> Act {
        let author = Author { actor: Actor::User(user), origin: Origin::Client(address) };
        Act { now, author, entry: AuditId::new(now, self.0.context.random.bits()) }
    }

    /// The sessions of the user of this one, newest first.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn sessions(&self, visit: &Visit) -> Result<Vec<Session>, UserError> {
        let context = &self.0.context;
        Ok(context.store.sessions(visit.session.user, context.clock.now()).await?)
    }

    /// What the user of a session belongs to, by name.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn memberships(&self, visit: &Visit) -> Result<Vec<Membership>, UserError> {
        Ok(self.0.context.store.memberships(visit.session.user).await?)
    }

    /// What the user of a session may do in an account, if it is as much as `needed`.
    ///
    /// # Errors
    /// `NoSuchAccount` to who does not belong to it, `Forbidden` to who may do less.
    pub async fn authorize(
        &self,
        visit: &Visit,
        account: AccountId,
        needed: Role,
    ) -> Result<Role, UserError> {
        let role = self.0.context.store.role(account, visit.session.user).await?;
        let role = role.ok_or(UserError::NoSuchAccount)?;
        if role.allows(needed) { Ok(role) } else { Err(UserError::Forbidden(needed)) }
    }
}
