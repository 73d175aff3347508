//! Notification channels: the destinations of an account's alerts.

use crate::domain::channel::{Channel, ChannelConfig};
use crate::domain::{AccountId, ChannelId, Timestamp};
use crate::runtime::measured;
use crate::store::{Result, WriteContext};

/// A channel with its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredChannel {
    /// The channel.
    pub channel: Channel,
    /// The configuration; absent if it cannot be decrypted.
    pub config: Option<ChannelConfig>,
    /// The revision of the configuration: each change raises it.
    pub revision: i64,
}

/// A channel to be stored. It is not verified.
#[derive(Clone, Debug)]
pub struct NewChannel {
    /// The channel, with `verified` false.
    pub channel: Channel,
    /// The configuration.
    pub config: ChannelConfig,
}

/// The result of creating a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelCreated {
    /// The channel was stored.
    Done,
    /// The channel was not stored: the account has reached its maximum.
    TooMany {
        /// The number of channels that the account has.
        current: u64,
    },
}

/// A change of a channel. An absent field stays as it is.
#[derive(Clone, Debug, Default)]
pub struct ChannelChange {
    /// The new label.
    pub label: Option<String>,
    /// The new configuration.
    pub config: Option<ChannelConfig>,
    /// `true` if the channel stays verified, because the new configuration has the same
    /// destination.
    pub keeps_verified: bool,
}

/// The result of a change of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelChanged {
    /// The change took effect.
    Done,
    /// The configuration no longer has the revision that the change is based on.
    Stale,
    /// The account has no such channel.
    NotFound,
}

/// The result of a request to send a test notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestAllowance {
    /// The notification may be sent, and was counted.
    Yes,
    /// The channel has reached [`TESTS_PER_HOUR`].
    No {
        /// The end of the hour, after which the next one may be sent.
        reset_at: Timestamp,
    },
    /// The account has no such channel.
    NotFound,
}

/// The maximum number of test notifications to a channel in an hour.
pub const TESTS_PER_HOUR: u32 = 5;

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// The notification channels of accounts.
    pub trait ChannelStore: Send + Sync {
        /// Stores a channel, unless the account already has `most` channels. Concurrent calls
        /// cannot exceed this maximum.
        async fn create_channel(
            &self,
            write: &WriteContext,
            channel: &NewChannel,
            most: Option<u64>,
        ) -> Result<ChannelCreated>;

        /// Returns all channels of an account, newest first.
        async fn channels(&self, account: AccountId) -> Result<Vec<Channel>>;

        /// Returns one channel with its configuration.
        async fn channel(&self, account: AccountId, id: ChannelId) -> Result<Option<StoredChannel>>;

        /// Changes a channel. A new configuration is stored only if the current one still has this
        /// revision. It takes `verified` away, unless the change keeps it. Then the alerts that
        /// wait for the channel fail.
        async fn change_channel(
            &self,
            write: &WriteContext,
            id: ChannelId,
            revision: i64,
            change: &ChannelChange,
        ) -> Result<ChannelChanged>;

        /// Deletes a channel and detaches it from all preferences, which keep its label for their
        /// warning. Alerts that wait for the channel fail. Returns `false` if the account has no
        /// such channel.
        async fn delete_channel(&self, write: &WriteContext, id: ChannelId) -> Result<bool>;

        /// Counts a test notification, unless the channel has reached [`TESTS_PER_HOUR`].
        async fn count_test(
            &self,
            account: AccountId,
            id: ChannelId,
            now: Timestamp,
        ) -> Result<TestAllowance>;

        /// Marks a channel as verified if its configuration still has this revision. `config`
        /// replaces the configuration, if the test notification has completed it.
        async fn verify_channel(
            &self,
            write: &WriteContext,
            id: ChannelId,
            revision: i64,
            config: Option<&ChannelConfig>,
        ) -> Result<ChannelChanged>;

        /// Takes `verified` away from a channel. `trouble` is the reason in words. Returns `false`
        /// if the account has no such channel.
        async fn unverify_channel(&self, write: &WriteContext, id: ChannelId, trouble: &str) -> Result<bool>;
    }
}
