//! Checks that an account may change something: its plan and its suspension.

use std::sync::Arc;

use super::{NotificationError, NotificationParts};
use crate::domain::AccountId;
use crate::domain::plan::Plan;

impl NotificationParts {
    /// Returns the plan of an account that is not suspended. The transaction of the change checks
    /// the suspension again.
    pub(super) async fn admit(&self, account: AccountId) -> Result<Arc<Plan>, NotificationError> {
        let found = self.store.account(account).await?;
        let found = found.ok_or(NotificationError::NoSuchAccount)?;
        if found.suspended_at.is_some() {
            return Err(NotificationError::Suspended);
        }
        Ok(self.plans.of(&found.plan))
    }
}
