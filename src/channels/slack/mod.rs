//! The Slack channel: an incoming webhook.

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
    hosts: &["hooks.slack.com", "hooks.slack-gov.com"],
    is_path: |path| path.strip_prefix("/services/").is_some_and(|rest| !rest.is_empty()),
    message: "Must be a Slack webhook URL such as https://hooks.slack.com/services/…",
};

const SLACK: Provider = Provider {
    name: "Slack",
    destination: "The Slack webhook",
    gone_on_404: true,
    advice: "Create a new incoming webhook in Slack and set its URL.",
};

#[derive(Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct SlackConfig {
    webhook_url: String,
}

/// The Slack channel type.
pub struct Slack {
    provider: ProviderClient,
    allowed: AllowedHosts,
}

impl Slack {
    /// Creates the channel type. It calls through `provider`; webhooks may also point at hosts in
    /// `allowed`.
    pub fn new(provider: ProviderClient, allowed: AllowedHosts) -> Self {
        Self { provider, allowed }
    }
}

#[async_trait]
impl ChannelAdapter for Slack {
    fn configure(
        &self,
        given: &Map<String, Value>,
        current: Option<&ChannelConfig>,
    ) -> Result<CheckedConfiguration, FieldErrors> {
        let mut fields = ConfigFields::new(given);
        let url = fields.webhook_url(&RULE, &self.allowed, &self.provider);
        let webhook_url = fields.finish(url)?.url().to_string();
        let config = write(&SlackConfig { webhook_url }, current);
        Ok(CheckedConfiguration { config, secret: None })
    }

    async fn send(
        &self,
        to: &Destination,
        alert: &Alert,
        timeout: Duration,
    ) -> Result<SentMessage, SendError> {
        let config: SlackConfig = read(&to.config).ok_or_else(SendError::unreadable_config)?;
        let body = render::payload(&Message::new(alert));
        let call = ProviderCall {
            account: to.account,
            provider: SLACK,
            mask: mask_of_url(&config.webhook_url),
            url: config.webhook_url,
            headers: HeaderMap::new(),
            body: body.to_string().into_bytes(),
            timeout,
        };
        self.provider.post(call).await.map(SentMessage::from)
    }
}
