//! Queries on channels.

use super::{NotificationError, Notifications};
use crate::domain::channel::Channel;
use crate::domain::plan::ChannelType;
use crate::domain::{AccountId, ChannelId};
use crate::store::ChannelUses;

/// A filter for the list of channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelFilter {
    /// Keeps only channels of this type.
    pub kind: Option<ChannelType>,
    /// Keeps only verified (`true`) or only unverified (`false`) channels.
    pub verified: Option<bool>,
}

impl ChannelFilter {
    fn matches(self, channel: &Channel) -> bool {
        self.kind.is_none_or(|kind| channel.kind == kind)
            && self.verified.is_none_or(|verified| channel.verified == verified)
    }
}

impl Notifications {
    /// Returns the account's channels, newest first.
    pub async fn channels(
        &self,
        account: AccountId,
        filter: ChannelFilter,
    ) -> Result<Vec<Channel>, NotificationError> {
        let mut channels = self.0.store.channels(account).await?;
        channels.retain(|channel| filter.matches(channel));
        Ok(channels)
    }

    /// Returns at most `limit` schedules whose preferences name a channel, and the number of all.
    pub async fn channel_uses(
        &self,
        account: AccountId,
        id: ChannelId,
        limit: u32,
    ) -> Result<ChannelUses, NotificationError> {
        Ok(self.0.store.channel_uses(account, id, limit).await?)
    }

    /// Returns one channel.
    pub async fn channel(
        &self,
        account: AccountId,
        id: ChannelId,
    ) -> Result<Channel, NotificationError> {
        Ok(self.0.stored(account, id).await?.channel)
    }
}
