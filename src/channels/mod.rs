//! Notification channels: they deliver alerts and account mails to people.
//!
//! Place in the flow: a leaf. The commands check a channel's configuration here, and the notifier
//! sends alerts through a channel. Each call makes one attempt within a given time. The caller
//! decides on retries and stores changed configurations.
//!
//! `contract` defines the interface of a channel type; each type has its own folder. To add a type,
//! add its folder, a `ChannelType` and a line in [`Channels`]. `message` is the content of an
//! alert, shared by all types; each type renders and escapes it for its own format.
//!
//! Invariants:
//! - Text from users and hosts (names, labels, responses) is inert: it cannot form markup, a
//!   mention, a link or a header, and it cannot change the recipient (S39). Mail programs may still
//!   turn a URL in plain text into a link.
//! - Every HTTP request goes through the egress guard, `outbound::Client`.
//! - Errors and logs contain no secret: no password, no token and no webhook URL.
//!
//! On failure: a call returns a [`SendError`] with a stable code and one or two plain sentences.
//! After a timeout the provider may still have accepted the alert, so a retry may duplicate it.
//! Every attempt carries the same event id, so receivers can recognize duplicates.

mod chat_url;
mod contract;
mod discord;
mod durations;
pub mod email;
mod fields;
mod message;
mod provider;
mod slack;
mod telegram;
mod text;
mod webhook;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

pub use self::contract::{
    CheckedConfiguration, Destination, GeneratedSecret, SendError, SentMessage,
};

use self::chat_url::AllowedHosts;
use self::contract::ChannelAdapter;
use self::discord::Discord;
use self::email::{Email, Mailer};
use self::provider::ProviderClient;
use self::slack::Slack;
use self::telegram::Telegram;
use self::webhook::Webhook;
use crate::domain::Timestamp;
use crate::domain::alert::content::Alert;
use crate::domain::channel::ChannelConfig;
use crate::domain::field_errors::FieldErrors;
use crate::domain::plan::ChannelType;
use crate::outbound;
use crate::runtime::{Clock, Random};

/// The public Telegram service.
const TELEGRAM_URL: &str = "https://api.telegram.org";

/// The operator's settings for channels.
#[derive(Clone, Debug)]
pub struct ChannelSettings {
    /// Hosts that chat webhooks may point at in addition to their provider's: names or addresses
    /// without a port. These hosts may use plain HTTP and any port.
    pub chat_hosts: Vec<String>,
    /// The base URL of the Telegram service, without a trailing slash.
    pub telegram_url: String,
    /// The public URL of this installation, without a trailing slash. If absent, mails contain no
    /// unsubscribe link.
    pub public_url: Option<String>,
}

impl Default for ChannelSettings {
    fn default() -> Self {
        let telegram_url = TELEGRAM_URL.to_owned();
        Self { chat_hosts: Vec::new(), telegram_url, public_url: None }
    }
}

/// All channel types. Clones share one set of connections.
#[derive(Clone)]
pub struct Channels(Arc<Types>);

struct Types {
    email: Email,
    slack: Slack,
    discord: Discord,
    telegram: Telegram,
    webhook: Webhook,
}

impl Channels {
    /// Creates all channel types. They make HTTP calls through `client` and send mail through
    /// `mailer`. Without a mailer, every mail fails.
    pub fn new(
        settings: ChannelSettings,
        client: outbound::Client,
        mailer: Option<Mailer>,
        clock: Clock,
        random: Random,
    ) -> Self {
        let provider = ProviderClient::new(client, clock.clone());
        let hosts = AllowedHosts::new(&settings.chat_hosts);
        Self(Arc::new(Types {
            email: Email::new(mailer, settings.public_url, clock, random.clone()),
            slack: Slack::new(provider.clone(), hosts.clone()),
            discord: Discord::new(provider.clone(), hosts),
            telegram: Telegram::new(provider.clone(), settings.telegram_url),
            webhook: Webhook::new(provider, random),
        }))
    }

    fn of(&self, kind: ChannelType) -> &dyn ChannelAdapter {
        match kind {
            ChannelType::Email => &self.0.email,
            ChannelType::Slack => &self.0.slack,
            ChannelType::Discord => &self.0.discord,
            ChannelType::Telegram => &self.0.telegram,
            ChannelType::Webhook => &self.0.webhook,
        }
    }

    /// Checks the `config` that a user supplies for a new channel, or for a changed channel, whose
    /// `current` configuration it replaces. Generates the missing secrets of the type. The result
    /// has the same bytes as `current` if nothing changes.
    ///
    /// # Errors
    /// Messages by field name, such as `config.webhookUrl`.
    pub fn configure(
        &self,
        kind: ChannelType,
        given: &Map<String, Value>,
        current: Option<&ChannelConfig>,
    ) -> Result<CheckedConfiguration, FieldErrors> {
        self.of(kind).configure(given, current)
    }

    /// Gives a webhook channel a new signing secret: `given`, or a generated one. The previous
    /// secret also signs until `old_expires_at`. Returns `None` for channel types without a signing
    /// secret.
    pub fn rotate_secret(
        &self,
        kind: ChannelType,
        current: &ChannelConfig,
        given: Option<&str>,
        old_expires_at: Timestamp,
    ) -> Option<Result<CheckedConfiguration, FieldErrors>> {
        let is_webhook = kind == ChannelType::Webhook;
        is_webhook.then(|| self.0.webhook.rotate_secret(current, given, old_expires_at))
    }

    /// Returns `true` if `token` is the one in the unsubscribe link of an email channel's mails.
    /// The comparison takes the same time for every wrong token. Returns `false` for configurations
    /// of other types.
    pub fn unsubscribes(&self, config: &ChannelConfig, token: &str) -> bool {
        self.0.email.unsubscribes(config, token)
    }

    /// Returns the maximum number of concurrent attempts of a channel type; `None` if it is
    /// unlimited. All mails share the connections to one server.
    pub fn most_at_once(&self, kind: ChannelType) -> Option<usize> {
        self.of(kind).most_at_once()
    }

    /// Makes one attempt to deliver `alert`, within `timeout` in total.
    ///
    /// # Errors
    /// If the provider does not accept the alert, or does not respond in time.
    pub async fn send(
        &self,
        to: &Destination,
        alert: &Alert,
        timeout: Duration,
    ) -> Result<SentMessage, SendError> {
        self.of(to.kind).send(to, alert, timeout).await
    }
}
