//! Notification channels: where alerts go.

use std::fmt;

use zeroize::Zeroizing;

use super::plan::ChannelType;
use super::{ChannelId, Timestamp};

/// The longest label, in characters.
pub const LONGEST_LABEL: usize = 100;

/// The configuration of a channel as JSON text: an address, a URL, a token. Secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ChannelConfig(Zeroizing<String>);

impl ChannelConfig {
    /// The configuration that this JSON text holds.
    pub fn new(json: String) -> Self {
        Self(Zeroizing::new(json))
    }

    /// The JSON text, for the sender of the channel's type and for the store, which encrypts it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ChannelConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChannelConfig(hidden)")
    }
}

/// A channel as its account sees it: without its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its id.
    pub id: ChannelId,
    /// How it delivers.
    pub kind: ChannelType,
    /// The name that people gave it.
    pub label: String,
    /// Whether a test notification has arrived with this configuration.
    pub verified: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}
