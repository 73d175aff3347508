//! The contract of a channel type, and the types that it returns.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::domain::alert::content::Alert;
use crate::domain::alert::delivery::DeliveryError;
use crate::domain::channel::ChannelConfig;
use crate::domain::field_errors::FieldErrors;
use crate::domain::plan::ChannelType;
use crate::domain::{AccountId, ChannelId};

/// A checked configuration.
#[derive(Debug)]
pub struct CheckedConfiguration {
    /// The configuration to store; the same bytes as the current one if nothing has changed.
    pub config: ChannelConfig,
    /// The signing secret, if this call generated one. The user sees it only once.
    pub secret: Option<GeneratedSecret>,
}

/// The text form of a generated signing secret.
#[derive(Clone, PartialEq, Eq)]
pub struct GeneratedSecret(Zeroizing<String>);

impl GeneratedSecret {
    pub(super) fn new(text: Zeroizing<String>) -> Self {
        Self(text)
    }

    /// Returns the plain secret, to show to the user.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for GeneratedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GeneratedSecret(hidden)")
    }
}

/// The channel that an alert is sent to.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The account that owns the channel.
    pub account: AccountId,
    /// The channel's id.
    pub channel: ChannelId,
    /// The channel's type.
    pub kind: ChannelType,
    /// The channel's configuration.
    pub config: ChannelConfig,
}

/// The result of a delivery that the provider accepted.
#[derive(Debug, Default)]
pub struct SentMessage {
    /// The HTTP status of the response, or the reply code of the mail server.
    pub status: Option<u16>,
    /// The first 500 characters of the response, with the channel's secrets masked.
    pub response: Option<String>,
    /// A more complete configuration to store, after Telegram's chat was found.
    pub config: Option<ChannelConfig>,
}

/// A failed attempt.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SendError {
    /// The class of the failure.
    pub code: DeliveryError,
    /// The failure and the remedy, for users. It contains no secret, no webhook URL and no resolved
    /// address.
    pub message: String,
    /// The HTTP status of the response, or the reply code of the mail server.
    pub status: Option<u16>,
    /// The first 500 characters of the response, with the channel's secrets masked.
    pub response: Option<String>,
    /// The delay before the next attempt that the provider asks for.
    pub retry_after: Option<Duration>,
    /// `true` if the provider says that the destination no longer exists. The channel must then be
    /// set up and verified again.
    pub gone: bool,
}

impl SendError {
    /// Creates an error for a failure without a response.
    pub(super) fn new(code: DeliveryError, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message, status: None, response: None, retry_after: None, gone: false }
    }

    /// Creates the error for a stored configuration that does not match this channel type.
    pub(super) fn unreadable_config() -> Self {
        let message = "The channel's configuration cannot be read. Set it again.";
        Self::new(DeliveryError::ConfigUnreadable, message)
    }
}

/// The implementation of a channel type.
#[async_trait]
pub(super) trait ChannelAdapter: Send + Sync {
    /// Returns the maximum number of concurrent attempts; `None` if it is unlimited.
    fn most_at_once(&self) -> Option<usize> {
        None
    }

    /// Checks a configuration from a user, which replaces `current`.
    fn configure(
        &self,
        given: &Map<String, Value>,
        current: Option<&ChannelConfig>,
    ) -> Result<CheckedConfiguration, FieldErrors>;

    /// Makes one attempt to deliver `alert`, within `timeout`.
    async fn send(
        &self,
        to: &Destination,
        alert: &Alert,
        timeout: Duration,
    ) -> Result<SentMessage, SendError>;
}
