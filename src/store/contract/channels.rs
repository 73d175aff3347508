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
    /// Its configuration; absent if it cannot be decrypted.
    pub config: Option<ChannelConfig>,
    /// The number of the configuration: each change raises it.
    pub revision: i64,
}

/// A channel to be stored: not verified.
#[derive(Clone, Debug)]
pub struct NewChannel {
    /// The channel, `verified` false.
    pub channel: Channel,
    /// Its configuration.
    pub config: ChannelConfig,
}

/// What became of a channel to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelCreated {
    /// It is there.
    Done,
    /// It is not: the account has as many as it may.
    TooMany {
        /// How many it has.
        current: u64,
    },
}

/// A change of a channel. What is absent stays as it is.
#[derive(Clone, Debug, Default)]
pub struct ChannelChange {
    /// The new label.
    pub label: Option<String>,
    /// The new configuration.
    pub config: Option<ChannelConfig>,
    /// Whether the channel stays verified with that configuration: it leads to the same place.
    pub keeps_verified: bool,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelChanged {
    /// It took effect.
    Done,
    /// The configuration is no longer the one that the change was worked out from.
    Stale,
    /// The account has no such channel.
    NotFound,
}

/// Whether a test notification may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryAllowed {
    /// It may, and is counted.
    Yes,
    /// There were too many within the hour.
    No {
        /// When the hour is over.
        reset_at: Timestamp,
    },
    /// The account has no such channel.
    NotFound,
}

/// Test notifications that a channel may be sent in an hour.
pub const TESTS_PER_HOUR: u32 = 5;

measured! {
    StoreOperation, STORE_CALL_SECONDS, STORE_CALL_ERRORS;
    /// The channels of an account.
    pub trait ChannelStore: Send + Sync {
        /// Stores a channel. If the account may have at most `most`, it never has more.
        async fn create_channel(
            &self,
            write: &WriteContext,
            channel: &NewChannel,
            most: Option<u64>,
        ) -> Result<ChannelCreated>;

        /// All channels of an account, newest first.
        async fn channels(&self, account: AccountId) -> Result<Vec<Channel>>;

        /// One channel with its configuration.
        async fn channel(&self, account: AccountId, id: ChannelId) -> Result<Option<StoredChannel>>;

        /// Changes a channel whose configuration still has this revision. A new configuration takes
        /// `verified` away unless the change keeps it: alerts that wait for the channel fail.
        async fn change_channel(
            &self,
            write: &WriteContext,
            id: ChannelId,
            revision: i64,
            change: &ChannelChange,
        ) -> Result<ChannelChanged>;

        /// Deletes a channel and detaches it from all preferences, which keep its label for their warning.
        /// Alerts that wait for it fail. `false` if the account has no such channel.
        async fn delete_channel(&self, write: &WriteContext, id: ChannelId) -> Result<bool>;

        /// Counts a test notification, at most [`TESTS_PER_HOUR`].
        async fn count_test(
            &self,
            account: AccountId,
            id: ChannelId,
            now: Timestamp,
        ) -> Result<TryAllowed>;

        /// Marks a channel as verified whose configuration still has this revision; `config` is what the
        /// test notification has completed of it.
        async fn verify_channel(
            &self,
            write: &WriteContext,
            id: ChannelId,
            revision: i64,
            config: Option<&ChannelConfig>,
        ) -> Result<ChannelChanged>;

        /// Takes `verified` away from a channel; `trouble` says why. `false` if the account has no such
        /// channel.
        async fn unverify_channel(&self, write: &WriteContext, id: ChannelId, trouble: &str) -> Result<bool>;
    }
}
