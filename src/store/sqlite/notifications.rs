//! Notification channels, preferences and alerts.

use std::sync::Arc;

use async_trait::async_trait;

use super::notifying::{self, SealedChange};
use super::{SqliteStore, failed_in};
use crate::domain::alert::grouping::GroupingRules;
use crate::domain::channel::{Channel, ChannelConfig};
use crate::domain::{AccountId, ChannelId, DeliveryId, ScheduleId, Timestamp};
use crate::store::channels::ChannelRow;
use crate::store::{
    AlertStore, AlertWork, ChannelChange, ChannelChanged, ChannelCreated, ChannelStore,
    ClaimedDeliveries, Delivery, DeliveryClaim, DeliveryPage, DeliveryQuery, NewChannel,
    NewPreference, PreferenceSet, PreferenceStore, Redelivered, Relayed, Result, StoredChannel,
    StoredPreference, TryAllowed, TryEnd, Write,
};

#[async_trait]
impl ChannelStore for SqliteStore {
    async fn create_channel(
        &self,
        write: &Write,
        new: &NewChannel,
        most: Option<u64>,
    ) -> Result<ChannelCreated> {
        let (write, channel) = (*write, new.channel.clone());
        let config = self.vault.seal_config(write.account, channel.id, &new.config);
        self.write("create_channel", move |connection| {
            let (channel, config) = (channel.clone(), config.clone());
            Box::pin(notifying::create_channel(connection, write, channel, config, most))
        })
        .await
    }

    async fn channels(&self, account: AccountId) -> Result<Vec<Channel>> {
        let mut reader = self.readers.take().await.map_err(failed_in("channels"))?;
        let found = notifying::channels(&mut reader, account).await;
        reader.done(found).map_err(failed_in("channels"))
    }

    async fn channel(&self, account: AccountId, id: ChannelId) -> Result<Option<StoredChannel>> {
        let mut reader = self.readers.take().await.map_err(failed_in("channel"))?;
        let found = notifying::channel(&mut reader, account, id).await;
        let found = reader.done(found).map_err(failed_in("channel"))?;
        let open = |row: ChannelRow| row.open(account, &self.vault);
        Ok(found.map(open))
    }

    async fn change_channel(
        &self,
        write: &Write,
        id: ChannelId,
        revision: i64,
        change: &ChannelChange,
    ) -> Result<ChannelChanged> {
        let write = *write;
        let seal = |config: &ChannelConfig| self.vault.seal_config(write.account, id, config);
        let change = SealedChange {
            label: change.label.clone(),
            config: change.config.as_ref().map(seal),
            keeps_verified: change.keeps_verified,
        };
        self.write("change_channel", move |connection| {
            Box::pin(notifying::change_channel(connection, write, id, revision, change))
        })
        .await
    }

    async fn delete_channel(&self, write: &Write, id: ChannelId) -> Result<bool> {
        let write = *write;
        self.write("delete_channel", move |connection| {
            Box::pin(notifying::delete_channel(connection, write, id))
        })
        .await
    }

    async fn count_test(
        &self,
        account: AccountId,
        id: ChannelId,
        now: Timestamp,
    ) -> Result<TryAllowed> {
        self.write("count_test", move |connection| {
            Box::pin(notifying::count_test(connection, account, id, now))
        })
        .await
    }

    async fn verify_channel(
        &self,
        write: &Write,
        id: ChannelId,
        revision: i64,
        config: Option<&ChannelConfig>,
    ) -> Result<ChannelChanged> {
        let write = *write;
        let config = config.map(|config| self.vault.seal_config(write.account, id, config));
        self.write("verify_channel", move |connection| {
            let config = config.clone();
            Box::pin(notifying::verify_channel(connection, write, id, revision, config))
        })
        .await
    }

    async fn unverify_channel(&self, write: &Write, id: ChannelId, trouble: &str) -> Result<bool> {
        let (write, trouble) = (*write, Arc::<str>::from(trouble));
        self.write("unverify_channel", move |connection| {
            let trouble = trouble.clone();
            Box::pin(
                async move { notifying::unverify_channel(connection, write, id, &trouble).await },
            )
        })
        .await
    }
}

#[async_trait]
impl PreferenceStore for SqliteStore {
    async fn preference(
        &self,
        account: AccountId,
        schedule: ScheduleId,
    ) -> Result<Option<StoredPreference>> {
        let mut reader = self.readers.take().await.map_err(failed_in("preference"))?;
        let found = notifying::preference(&mut reader, account, schedule).await;
        reader.done(found).map_err(failed_in("preference"))
    }

    async fn set_preference(
        &self,
        write: &Write,
        schedule: ScheduleId,
        new: &NewPreference,
    ) -> Result<PreferenceSet> {
        let (write, new) = (*write, new.clone());
        self.write("set_preference", move |connection| {
            Box::pin(notifying::set_preference(connection, write, schedule, new.clone()))
        })
        .await
    }
}

#[async_trait]
impl AlertStore for SqliteStore {
    async fn alert_work(&self, now: Timestamp) -> Result<AlertWork> {
        let mut reader = self.readers.take().await.map_err(failed_in("alert_work"))?;
        let found = notifying::alert_work(&mut reader, now).await;
        reader.done(found).map_err(failed_in("alert_work"))
    }

    async fn relay(&self, now: Timestamp, limit: u32, rules: &GroupingRules) -> Result<Relayed> {
        let (rules, damage) = (*rules, self.damage.clone());
        self.write("relay", move |connection| {
            Box::pin(async move { notifying::relay(connection, now, limit, rules, &damage).await })
        })
        .await
    }

    async fn claim_deliveries(&self, claim: &DeliveryClaim) -> Result<ClaimedDeliveries> {
        let (claim, damage) = (claim.clone(), self.damage.clone());
        let claimed = self.write("claim_deliveries", move |connection| {
            Box::pin(async move { notifying::claim_deliveries(connection, claim, &damage).await })
        });
        let (sealed, undeliverable) = claimed.await?;
        let taken = sealed.into_iter().map(|one| one.open(&self.vault)).collect();
        Ok(ClaimedDeliveries { taken, undeliverable })
    }

    async fn release_deliveries(&self, now: Timestamp) -> Result<u64> {
        self.write("release_deliveries", move |connection| {
            Box::pin(notifying::release_deliveries(connection, now))
        })
        .await
    }

    async fn complete_tries(&self, now: Timestamp, ends: &[TryEnd]) -> Result<Vec<bool>> {
        if ends.is_empty() {
            return Ok(Vec::new());
        }
        let ends: Arc<[TryEnd]> = ends.into();
        self.write("complete_tries", move |connection| {
            let ends = ends.clone();
            Box::pin(async move { notifying::complete_tries(connection, now, &ends).await })
        })
        .await
    }

    async fn deliveries(&self, account: AccountId, query: &DeliveryQuery) -> Result<DeliveryPage> {
        let mut reader = self.readers.take().await.map_err(failed_in("deliveries"))?;
        let found = notifying::deliveries(&mut reader, account, query.clone()).await;
        reader.done(found).map_err(failed_in("deliveries"))
    }

    async fn delivery(&self, account: AccountId, id: DeliveryId) -> Result<Option<Delivery>> {
        let mut reader = self.readers.take().await.map_err(failed_in("delivery"))?;
        let found = notifying::delivery(&mut reader, account, id).await;
        reader.done(found).map_err(failed_in("delivery"))
    }

    async fn redeliver(&self, write: &Write, id: DeliveryId) -> Result<Redelivered> {
        let write = *write;
        self.write("redeliver", move |connection| {
            Box::pin(notifying::redeliver(connection, write, id))
        })
        .await
    }

    async fn prune_deliveries(&self, before: Timestamp, limit: u32) -> Result<u64> {
        self.write("prune_deliveries", move |connection| {
            Box::pin(notifying::prune_deliveries(connection, before, limit))
        })
        .await
    }
}
