//! The user's choice of the way in which pages show times.

use super::{UserError, Users, Visit};
use crate::domain::user::TimeDisplay;

impl Users {
    /// Sets the way in which pages show times to the signed-in user, in all sessions and accounts.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn set_time_display(
        &self,
        visit: &Visit,
        display: TimeDisplay,
    ) -> Result<(), UserError> {
        let context = &self.0.context;
        let audit_context = self.audit_context(visit, context.clock.now());
        context.store.set_time_display(&audit_context, visit.session.user, display).await?;
        Ok(())
    }
}
