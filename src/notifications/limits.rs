//! What an account may do: its plan, and whether it is suspended.

use std::sync::Arc;

use super::{NotificationError, NotificationParts};
use crate::domain::AccountId;
use crate::domain::plan::Plan;

impl NotificationParts {
    /// The plan of an account that may change something. The transaction of the change checks
    /// again whether the account is suspended.
    pub(super) async fn admit(&self, account: AccountId) -> Result<Arc<Plan>, NotificationError> {
        let found = self.store.account(account).await?;
        let found = found.ok_or(NotificationError::NoSuchAccount)?;
        if found.suspended_at.is_some() {
            return Err(NotificationError::Suspended);
        }
        Ok(self.plans.of(&found.plan))
    }
}
