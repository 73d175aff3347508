//! The Discord channel: a webhook of a text channel.

mod render;

use std::time::Duration;

use async_trait::async_trait;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::chat_url::{AllowedHosts, WebhookRule};
use super::contract::{ChannelAdapter, CheckedConfiguration, Destination, SendError, SentMessage};
use super::fields::{ConfigFields, read, write};
use super::message::Message;
use super::provider::{Provider, ProviderCall, ProviderClient, mask_of_url};
use crate::domain::alert::content::Alert;
use crate::domain::channel::ChannelConfig;
use crate::domain::field_errors::FieldErrors;

const RULE: WebhookRule = WebhookRule {
    hosts: &["discord.com", "discordapp.com", "ptb.discord.com", "canary.discord.com"],
    is_path,
    message: "Must be a Discord webhook URL such as https://discord.com/api/webhooks/…",
};

const DISCORD: Provider = Provider {
    name: "Discord",
    destination: "The Discord webhook",
    gone_on_404: true,
    advice: "Create a new webhook in Discord and set its URL.",
};

/// Returns `true` for `/api/webhooks/ID/TOKEN`, with or without an API version.
fn is_path(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').skip(1).collect();
    let is_version = |part: &str| part.strip_prefix('v').is_some_and(is_number);
    match parts[..] {
        ["api", "webhooks", id, token] => is_number(id) && !token.is_empty(),
        ["api", version, "webhooks", id, token] => {
            is_version(version) && is_number(id) && !token.is_empty()
        }
        _ => false,
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[derive(Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct DiscordConfig {
    webhook_url: String,
}

/// The Discord channel type.
pub struct Discord {
    provider: ProviderClient,
    allowed: AllowedHosts,
}

impl Discord {
    /// Creates the channel type. It calls through `provider`; webhooks may also point at hosts in
    /// `allowed`.
    pub fn new(provider: ProviderClient, allowed: AllowedHosts) -> Self {
        Self { provider, allowed }
    }
}

#[async_trait]
impl ChannelAdapter for Discord {
    fn configure(
        &self,
        given: &Map<String, Value>,
        current: Option<&ChannelConfig>,
    ) -> Result<CheckedConfiguration, FieldErrors> {
        let mut fields = ConfigFields::new(given);
        let url = fields.webhook_url(&RULE, &self.allowed, &self.provider);
        let webhook_url = fields.finish(url)?.url().to_string();
        let config = write(&DiscordConfig { webhook_url }, current);
        Ok(CheckedConfiguration { config, secret: None })
    }

    async fn send(
        &self,
        to: &Destination,
        alert: &Alert,
        timeout: Duration,
    ) -> Result<SentMessage, SendError> {
        let config: DiscordConfig = read(&to.config).ok_or_else(SendError::unreadable_config)?;
        let body = render::payload(&Message::new(alert));
        let call = ProviderCall {
            account: to.account,
            provider: DISCORD,
            mask: mask_of_url(&config.webhook_url),
            url: waiting(&config.webhook_url),
            headers: HeaderMap::new(),
            body: body.to_string().into_bytes(),
            timeout,
        };
        self.provider.post(call).await.map(SentMessage::from)
    }
}

/// Returns the URL with `wait=true`. Without it, Discord responds before it stores the message, and
/// does not report that storing failed.
fn waiting(webhook_url: &str) -> String {
    let separator = if webhook_url.contains('?') { '&' } else { '?' };
    format!("{webhook_url}{separator}wait=true")
}
