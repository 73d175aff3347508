//! The user's display settings for times.

use super::{SignedInRequest, UserError, Users};
use crate::domain::user::TimeDisplay;

impl Users {
    /// Sets the display settings for times of the signed-in user, for all sessions and accounts.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn set_time_display(
        &self,
        visit: &SignedInRequest,
        display: TimeDisplay,
    ) -> Result<(), UserError> {
        let context = &self.0.context;
        let audit_context = self.audit_context(visit, context.clock.now());
        context.store.set_time_display(&audit_context, visit.session.user, display).await?;
        Ok(())
    }
}
