//! Notification channels: how alerts, and mails of accounts, reach people.
//!
//! Place in the flow: a leaf. The commands check a channel's configuration here, and the notifier
//! sends an alert through a channel. Each call tries once, within a given time. The caller decides
//! whether to try again, and stores what changes.
//!
//! `contract` says what a channel type implements; each type has a folder. To add a type, add its
//! folder, a `ChannelType` and a line in [`Channels`]. `message` is the content of an alert, the same
//! for all types; each type renders and escapes it for its own format.
//!
//! Invariants:
//! - Text of users and hosts (names, labels, responses) is inert: it forms no markup, no mention, no
//!   link and no header, and it cannot change the recipient (S39). Mail programs may still make a
//!   link of a URL in plain text.
//! - Every HTTP request goes through the egress guard, `outbound::Client`.
//! - No error and no log contains a secret: a password, a token, or the URL of a webhook.
//!
//! On failure: a [`SendError`] with a stable code and one or two plain sentences. A timeout can mean
//! that the provider has accepted the alert, so a retry may duplicate it. Every try carries the
//! same event id, by which receivers recognize duplicates.

mod chat_url;
mod contract;
mod discord;
pub mod email;
mod fields;
mod message;
mod provider;
mod slack;
mod span;
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

pub use self::contract::{Configured, Destination, GeneratedSecret, SendError, Sent};

use self::chat_url::AllowedHosts;
use self::contract::Adapter;
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

/// The public service of Telegram.
const TELEGRAM_URL: &str = "https://api.telegram.org";

/// What the operator decides about channels.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Hosts that chat webhooks may point at besides their provider's, names or addresses without
    /// a port. These hosts may use plain HTTP and any port.
    pub chat_hosts: Vec<String>,
    /// The service that Telegram bots call, without a slash at its end.
    pub telegram_url: String,
    /// The URL of this installation for people, without a slash at its end. Absent: mails carry no
    /// link to unsubscribe.
    pub public_url: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        let telegram_url = TELEGRAM_URL.to_owned();
        Self { chat_hosts: Vec::new(), telegram_url, public_url: None }
    }
}

/// All types of channels. Clones share one set of connections.
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
    /// Channels that call through `client` and mail through `mailer`. Without a mailer, mails fail.
    pub fn new(
        settings: Settings,
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

    fn of(&self, kind: ChannelType) -> &dyn Adapter {
        match kind {
            ChannelType::Email => &self.0.email,
            ChannelType::Slack => &self.0.slack,
            ChannelType::Discord => &self.0.discord,
            ChannelType::Telegram => &self.0.telegram,
            ChannelType::Webhook => &self.0.webhook,
        }
    }

    /// Checks the `config` that a user gives for a new channel, or for a changed one, whose
    /// `current` configuration it replaces. Generates what is generated for its type. The result
    /// has the same bytes as `current` if nothing changes.
    ///
    /// # Errors
    /// Messages by field, such as `config.webhookUrl`.
    pub fn configure(
        &self,
        kind: ChannelType,
        given: &Map<String, Value>,
        current: Option<&ChannelConfig>,
    ) -> Result<Configured, FieldErrors> {
        self.of(kind).configure(given, current)
    }

    /// Gives a webhook channel a new signing secret: `given`, or a generated one. The secret before
    /// it signs, too, until `old_expires_at`. Absent for channel types without a signing secret.
    pub fn rotate_secret(
        &self,
        kind: ChannelType,
        current: &ChannelConfig,
        given: Option<&str>,
        old_expires_at: Timestamp,
    ) -> Option<Result<Configured, FieldErrors>> {
        let is_webhook = kind == ChannelType::Webhook;
        is_webhook.then(|| self.0.webhook.rotate_secret(current, given, old_expires_at))
    }

    /// Whether `token` is the one in the unsubscribe link of an email channel's mails. Takes the
    /// same time for every wrong token. False for the configurations of other types.
    pub fn unsubscribes(&self, config: &ChannelConfig, token: &str) -> bool {
        self.0.email.unsubscribes(config, token)
    }

    /// How many tries this type of channel can make at once, if that is limited: all mails share the
    /// connections to one server.
    pub fn most_at_once(&self, kind: ChannelType) -> Option<usize> {
        self.of(kind).most_at_once()
    }

    /// Tries once to deliver `alert`, within `patience` in all.
    ///
    /// # Errors
    /// If the provider has not accepted it, or has not answered in time.
    pub async fn send(
        &self,
        to: &Destination,
        alert: &Alert,
        patience: Duration,
    ) -> Result<Sent, SendError> {
        self.of(to.kind).send(to, alert, patience).await
    }
}
