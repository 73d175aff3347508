//! Implements the contracts of notification channels, preferences and alerts for both databases.

use std::sync::Arc;

use async_trait::async_trait;

use super::SealedChange;
use super::channels::ChannelRow;
use crate::domain::alert::grouping::GroupingRules;
use crate::domain::channel::{Channel, ChannelConfig};
use crate::domain::{AccountId, ChannelId, DeliveryId, ScheduleId, Timestamp};
use crate::store::sql::connection::access::{Access, Database, call};
use crate::store::{
    AlertStore, AlertWork, ChannelChange, ChannelChanged, ChannelCreated, ChannelStore,
    ChannelUses, ClaimedDeliveries, Delivery, DeliveryClaim, DeliveryPage, DeliveryQuery,
    NewChannel, NewPreference, PreferenceSet, PreferenceStore, Redelivered, RelayResult, Result,
    StoredChannel, StoredPreference, TestAllowance, TryEnd, WriteContext,
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
        let create = call(super::create_channel, (write, channel, config, most));
        self.api().transaction("create_channel", create).await
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
        let change = call(super::change_channel, (write, id, revision, change));
        self.api().transaction("change_channel", change).await
    }

    async fn delete_channel(&self, write: &WriteContext, id: ChannelId) -> Result<bool> {
        self.api().transaction("delete_channel", call(super::delete_channel, (*write, id))).await
    }

    async fn count_test(
        &self,
        account: AccountId,
        id: ChannelId,
        now: Timestamp,
    ) -> Result<TestAllowance> {
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
        let verify = call(super::verify_channel, (write, id, revision, config));
        self.api().transaction("verify_channel", verify).await
    }

    async fn unverify_channel(
        &self,
        write: &WriteContext,
        id: ChannelId,
        trouble: &str,
    ) -> Result<bool> {
        let unverify = call(super::unverify_channel, (*write, id, trouble.to_owned()));
        self.api().transaction("unverify_channel", unverify).await
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
        let set = call(super::set_preference, (*write, schedule, new.clone()));
        self.api().transaction("set_preference", set).await
    }

    async fn channel_uses(
        &self,
        account: AccountId,
        channel: ChannelId,
        limit: u32,
    ) -> Result<ChannelUses> {
        let read = call(super::channel_uses, (account, channel, limit));
        self.api().snapshot("channel_uses", read).await
    }
}

#[async_trait]
impl<D: Database> AlertStore for D {
    async fn alert_work(&self, now: Timestamp) -> Result<AlertWork> {
        self.scheduler().read("alert_work", call(super::alert_work, (now,))).await
    }

    async fn relay(
        &self,
        now: Timestamp,
        limit: u32,
        rules: &GroupingRules,
    ) -> Result<RelayResult> {
        let relay = call(super::relay, (now, limit, *rules, self.corrupt_rows().clone()));
        self.scheduler().batch("relay", limit as usize, relay).await
    }

    async fn claim_deliveries(&self, claim: &DeliveryClaim) -> Result<ClaimedDeliveries> {
        let take = call(super::claim_deliveries, (claim.clone(), self.corrupt_rows().clone()));
        let claimed = self.scheduler().transaction("claim_deliveries", take);
        let (sealed, undeliverable) = claimed.await?;
        let taken = sealed.into_iter().map(|one| one.open(self.encrypted_fields())).collect();
        Ok(ClaimedDeliveries { taken, undeliverable })
    }

    async fn release_deliveries(&self, now: Timestamp) -> Result<u64> {
        let release = call(super::release_deliveries, (now,));
        self.scheduler().statement("release_deliveries", 1, release).await
    }

    async fn complete_tries(&self, now: Timestamp, ends: &[TryEnd]) -> Result<Vec<bool>> {
        if ends.is_empty() {
            return Ok(Vec::new());
        }
        let complete = call(super::complete_tries, (now, Arc::from(ends)));
        self.scheduler().batch("complete_tries", ends.len(), complete).await
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
        let prune = call(super::prune_deliveries, (before, limit));
        self.scheduler().batch("prune_deliveries", limit as usize, prune).await
    }
}
