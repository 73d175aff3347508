//! Reading the deliveries of alerts, and redelivering failed ones.

use super::{NotificationError, Notifications};
use crate::domain::call::Call;
use crate::domain::{AccountId, DeliveryId};
use crate::store::{Delivery, DeliveryPage, DeliveryQuery, Redelivered};

impl Notifications {
    /// Returns a page of the account's deliveries, newest first.
    pub async fn deliveries(
        &self,
        account: AccountId,
        query: &DeliveryQuery,
    ) -> Result<DeliveryPage, NotificationError> {
        Ok(self.0.store.deliveries(account, query).await?)
    }

    /// Returns one delivery with its tries.
    pub async fn delivery(
        &self,
        account: AccountId,
        id: DeliveryId,
    ) -> Result<Delivery, NotificationError> {
        let found = self.0.store.delivery(account, id).await?;
        found.ok_or(NotificationError::NoSuchDelivery)
    }

    /// Schedules a failed delivery for another round of up to five tries, the first of them at
    /// once. Returns the delivery in its new state.
    pub async fn redeliver(
        &self,
        account: AccountId,
        call: Call,
        id: DeliveryId,
    ) -> Result<Delivery, NotificationError> {
        let commands = self.clone();
        self.run(async move {
            let parts = &commands.0;
            parts.admit(account).await?;
            let write = parts.write(account, call, parts.clock.now());
            let conflict = |why| Err(NotificationError::Conflict(why));
            match parts.store.redeliver(&write, id).await? {
                Redelivered::Done => commands.delivery(account, id).await,
                Redelivered::NotFound => Err(NotificationError::NoSuchDelivery),
                Redelivered::NotFailed => conflict("The delivery has not failed"),
                Redelivered::NoChannel => conflict("The delivery has no channel any more"),
                Redelivered::Unverified => conflict("The channel is not verified, verify it first"),
            }
        })
        .await
    }
}
