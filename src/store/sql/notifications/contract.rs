//! Implements the contracts of notification channels, preferences and alerts for both databases.

use std::sync::Arc;

use async_trait::async_trait;

use super::SealedChange;
use super::channels::ChannelRow;
use crate::domain::alert::grouping::GroupingRules;
use crate::domain::channel::{Channel, ChannelConfig};
use crate::domain::{AccountId, ChannelId, DeliveryId, ScheduleId, Timestamp};
use crate::store::sql::access::{Access, Database, call};
use crate::store::{
    AlertStore, AlertWork, ChannelChange, ChannelChanged, ChannelCreated, ChannelStore,
    ChannelUses, ClaimedDeliveries, Delivery, DeliveryClaim, DeliveryPage, DeliveryQuery,
    NewChannel, NewPreference, PreferenceSet, PreferenceStore, Redelivered, Relayed, Result,
    StoredChannel, StoredPreference, TryAllowed, TryEnd, WriteContext,
};

#[async_trait]
impl<D: Database> ChannelStore for D {
    async fn create_channel(
        &self,
        write: &WriteContext,
        new: &NewChannel,
        most: Option<u64>,
    ) -> Result<ChannelCreated> {
        let (write, channel) = (*write, new.channel.clone());
        let config = self.encrypted_fields().seal_config(write.account, channel.id, &new.config);
        self.api()
            .transaction(
                "create_channel",
                call(super::create_channel, (write, channel, config, most)),
            )
            .await
    }

    async fn channels(&self, account: AccountId) -> Result<Vec<Channel>> {
        self.api().read("channels", call(super::channels, (account,))).await
    }

    async fn channel(&self, account: AccountId, id: ChannelId) -> Result<Option<StoredChannel>> {
        let found = self.api().read("channel", call(super::channel, (account, id)));
        let open = |row: ChannelRow| row.open(account, self.encrypted_fields());
        Ok(found.await?.map(open))
    }

    async fn change_channel(
        &self,
        write: &WriteContext,
        id: ChannelId,
        revision: i64,
        change: &ChannelChange,
    ) -> Result<ChannelChanged> {
        let write = *write;
        let seal =
            |config: &ChannelConfig| self.encrypted_fields().seal_config(write.account, id, config);
        let change = SealedChange {
            label: change.label.clone(),
            config: change.config.as_ref().map(seal),
            keeps_verified: change.keeps_verified,
        };
        self.api()
            .transaction(
                "change_channel",
                call(super::change_channel, (write, id, revision, change)),
            )
            .await
    }

    async fn delete_channel(&self, write: &WriteContext, id: ChannelId) -> Result<bool> {
        self.api().transaction("delete_channel", call(super::delete_channel, (*write, id))).await
    }

    async fn count_test(
        &self,
        account: AccountId,
        id: ChannelId,
        now: Timestamp,
    ) -> Result<TryAllowed> {
        self.api().transaction("count_test", call(super::count_test, (account, id, now))).await
    }

    async fn verify_channel(
        &self,
        write: &WriteContext,
        id: ChannelId,
        revision: i64,
        config: Option<&ChannelConfig>,
    ) -> Result<ChannelChanged> {
        let write = *write;
        let config =
            config.map(|config| self.encrypted_fields().seal_config(write.account, id, config));
        self.api()
            .transaction(
                "verify_channel",
                call(super::verify_channel, (write, id, revision, config)),
            )
            .await
    }

    async fn unverify_channel(
        &self,
        write: &WriteContext,
        id: ChannelId,
        trouble: &str,
    ) -> Result<bool> {
        let (write, trouble) = (*write, Arc::<str>::from(trouble));
        self.api()
            .transaction("unverify_channel", move |connection| {
                let trouble = trouble.clone();
                Box::pin(
                    async move { super::unverify_channel(connection, write, id, &trouble).await },
                )
            })
            .await
    }
}

#[async_trait]
impl<D: Database> PreferenceStore for D {
    async fn preference(
        &self,
        account: AccountId,
        schedule: ScheduleId,
    ) -> Result<Option<StoredPreference>> {
        self.api().snapshot("preference", call(super::preference, (account, schedule))).await
    }

    async fn set_preference(
        &self,
        write: &WriteContext,
        schedule: ScheduleId,
        new: &NewPreference,
    ) -> Result<PreferenceSet> {
        self.api()
            .transaction(
                "set_preference",
                call(super::set_preference, (*write, schedule, new.clone())),
            )
            .await
    }

    async fn channel_uses(
        &self,
        account: AccountId,
        channel: ChannelId,
        limit: u32,
    ) -> Result<ChannelUses> {
        self.api()
            .snapshot("channel_uses", call(super::channel_uses, (account, channel, limit)))
            .await
    }
}

#[async_trait]
impl<D: Database> AlertStore for D {
    async fn alert_work(&self, now: Timestamp) -> Result<AlertWork> {
        self.scheduler().read("alert_work", call(super::alert_work, (now,))).await
    }

    async fn relay(&self, now: Timestamp, limit: u32, rules: &GroupingRules) -> Result<Relayed> {
        let (rules, corrupt_rows) = (*rules, self.corrupt_rows().clone());
        self.scheduler()
            .batch("relay", limit as usize, move |connection| {
                let corrupt_rows = corrupt_rows.clone();
                Box::pin(
                    async move { super::relay(connection, now, limit, rules, &corrupt_rows).await },
                )
            })
            .await
    }

    async fn claim_deliveries(&self, claim: &DeliveryClaim) -> Result<ClaimedDeliveries> {
        let (claim, corrupt_rows) = (claim.clone(), self.corrupt_rows().clone());
        let claimed = self.scheduler().transaction("claim_deliveries", move |connection| {
            let (claim, corrupt_rows) = (claim.clone(), corrupt_rows.clone());
            Box::pin(async move { super::claim_deliveries(connection, claim, &corrupt_rows).await })
        });
        let (sealed, undeliverable) = claimed.await?;
        let taken = sealed.into_iter().map(|one| one.open(self.encrypted_fields())).collect();
        Ok(ClaimedDeliveries { taken, undeliverable })
    }

    async fn release_deliveries(&self, now: Timestamp) -> Result<u64> {
        self.scheduler()
            .statement("release_deliveries", 1, call(super::release_deliveries, (now,)))
            .await
    }

    async fn complete_tries(&self, now: Timestamp, ends: &[TryEnd]) -> Result<Vec<bool>> {
        if ends.is_empty() {
            return Ok(Vec::new());
        }
        let ends: Arc<[TryEnd]> = ends.into();
        self.scheduler()
            .batch("complete_tries", ends.len(), move |connection| {
                let ends = ends.clone();
                Box::pin(async move { super::complete_tries(connection, now, &ends).await })
            })
            .await
    }

    async fn deliveries(&self, account: AccountId, query: &DeliveryQuery) -> Result<DeliveryPage> {
        self.api().snapshot("deliveries", call(super::deliveries, (account, query.clone()))).await
    }

    async fn delivery(&self, account: AccountId, id: DeliveryId) -> Result<Option<Delivery>> {
        self.api().snapshot("delivery", call(super::delivery, (account, id))).await
    }

    async fn redeliver(&self, write: &WriteContext, id: DeliveryId) -> Result<Redelivered> {
        self.api().transaction("redeliver", call(super::redeliver, (*write, id))).await
    }

    async fn prune_deliveries(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.scheduler()
            .batch(
                "prune_deliveries",
                limit as usize,
                call(super::prune_deliveries, (before, limit)),
            )
            .await
    }
}
