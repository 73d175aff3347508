//! Notification channels: the destinations of alerts.

use std::fmt;

use zeroize::Zeroizing;

use super::plan::ChannelType;
use super::{ChannelId, Timestamp};

/// The maximum length of a label, in characters.
pub const MAX_LABEL: usize = 100;

/// The configuration of a channel as JSON text: an address, a URL, a token. Secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ChannelConfig(Zeroizing<String>);

impl ChannelConfig {
    /// Wraps a configuration in JSON.
    pub fn new(json: String) -> Self {
        Self(Zeroizing::new(json))
    }

    /// Returns the JSON text, for the sender of the channel's type and for the store, which
    /// encrypts it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ChannelConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChannelConfig(hidden)")
    }
}

/// A channel as shown to its account: without its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The channel's id.
    pub id: ChannelId,
    /// The type of delivery.
    pub kind: ChannelType,
    /// The name that a user chose.
    pub label: String,
    /// `true` if a test notification has arrived with this configuration.
    pub verified: bool,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time of its last change.
    pub updated_at: Timestamp,
}
