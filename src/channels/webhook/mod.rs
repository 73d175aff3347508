//! The webhook channel: a request to a user's URL, signed according to Standard Webhooks.
//!
//! Rotation: after a rotation, both secrets sign until the old one expires, so that the receiver
//! has time to switch.

mod payload;

use std::time::Duration;

use async_trait::async_trait;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::contract::{
    ChannelAdapter, CheckedConfiguration, Destination, GeneratedSecret, SendError, SentMessage,
};
use super::fields::{ConfigFields, read, write};
use super::provider::{Provider, ProviderCall, ProviderClient, mask_of_url};
use crate::domain::Timestamp;
use crate::domain::alert::content::Alert;
use crate::domain::channel::ChannelConfig;
use crate::domain::field_errors::FieldErrors;
use crate::domain::signing::{
    ID_HEADER, SIGNATURE_HEADER, Signature, SigningSecret, TIMESTAMP_HEADER,
};
use crate::runtime::Random;

const WEBHOOK: Provider = Provider {
    name: "The webhook",
    destination: "The webhook",
    gone_on_404: false,
    advice: "Set another URL, then verify the channel again.",
};

const WRONG_SECRET: &str = "Must be whsec_ and, in base64, 24 to 64 bytes";
const SAME_SECRET: &str = "Must differ from the current secret";

#[derive(Serialize, Deserialize, PartialEq)]
struct WebhookConfig {
    url: String,
    secret: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    previous: Option<PreviousSecret>,
}

/// The secret that the last rotation replaced.
#[derive(Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct PreviousSecret {
    secret: String,
    expires_at: Timestamp,
}

impl WebhookConfig {
    /// Returns all secrets, including expired ones.
    fn secrets(&self) -> Vec<String> {
        let previous = self.previous.iter().map(|previous| &previous.secret);
        std::iter::once(&self.secret).chain(previous).cloned().collect()
    }

    /// Returns the secrets that sign at `now`, newest first; `None` if one cannot be parsed.
    fn live_secrets(&self, now: Timestamp) -> Option<Vec<SigningSecret>> {
        let previous = self.previous.iter().filter(|previous| now < previous.expires_at);
        let texts = std::iter::once(&self.secret).chain(previous.map(|previous| &previous.secret));
        texts.map(|text| text.parse().ok()).collect()
    }
}

/// The webhook channel type.
pub struct Webhook {
    provider: ProviderClient,
    random: Random,
}

impl Webhook {
    /// Creates the channel type. It calls through `provider` and generates secrets from `random`.
    pub fn new(provider: ProviderClient, random: Random) -> Self {
        Self { provider, random }
    }

    /// Replaces the secret of `current`; see `Channels::rotate_secret`.
    pub fn rotate_secret(
        &self,
        current: &ChannelConfig,
        given: Option<&str>,
        old_expires_at: Timestamp,
    ) -> Result<CheckedConfiguration, FieldErrors> {
        let Some(config) = read::<WebhookConfig>(current) else {
            return Err(FieldErrors::of("config", "Cannot be read: set it again"));
        };
        let (secret, generated) = match given {
            None => self.generate(),
            Some(given) if given == config.secret => {
                return Err(FieldErrors::of("config.secret", SAME_SECRET));
            }
            Some(given) if is_secret(given) => (given.to_owned(), None),
            Some(_) => return Err(FieldErrors::of("config.secret", WRONG_SECRET)),
        };
        let previous = PreviousSecret { secret: config.secret, expires_at: old_expires_at };
        let rotated = WebhookConfig { url: config.url, secret, previous: Some(previous) };
        Ok(CheckedConfiguration { config: write(&rotated, Some(current)), secret: generated })
    }

    fn generate(&self) -> (String, Option<GeneratedSecret>) {
        let secret = SigningSecret::new(|bytes| self.random.fill(bytes)).reveal();
        (secret.as_str().to_owned(), Some(GeneratedSecret::new(secret)))
    }

    /// Returns the headers with which the receiver verifies `body`.
    fn headers(&self, config: &WebhookConfig, alert: &Alert, body: &[u8]) -> Option<HeaderMap> {
        let (now, id) = (self.provider.clock().now(), alert.id.to_string());
        let signature = Signature::new(&config.live_secrets(now)?, &id, now, body);
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (ID_HEADER, id),
            (TIMESTAMP_HEADER, signature.timestamp),
            (SIGNATURE_HEADER, signature.signatures),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::try_from(value).ok()?);
        }
        Some(headers)
    }
}

fn is_secret(text: &str) -> bool {
    text.parse::<SigningSecret>().is_ok()
}

#[async_trait]
impl ChannelAdapter for Webhook {
    fn configure(
        &self,
        given: &Map<String, Value>,
        current: Option<&ChannelConfig>,
    ) -> Result<CheckedConfiguration, FieldErrors> {
        let mut fields = ConfigFields::new(given);
        let url = fields.required("url");
        if let Some(Err(refused)) = url.map(|url| self.provider.check(url)) {
            fields.refuse("url", refused.to_string());
        }
        let secret = fields.optional("secret");
        if secret.is_some_and(|secret| !is_secret(secret)) {
            fields.refuse("secret", WRONG_SECRET);
        }
        let url = fields.finish(url)?.to_owned();
        let before: Option<WebhookConfig> = current.and_then(read);
        let is_same = |before: &WebhookConfig| secret.is_none_or(|given| given == before.secret);
        let (secret, previous, generated) = match (before.filter(is_same), secret) {
            (Some(before), _) => (before.secret, before.previous, None),
            (None, Some(given)) => (given.to_owned(), None, None),
            (None, None) => {
                let (secret, generated) = self.generate();
                (secret, None, generated)
            }
        };
        let config = write(&WebhookConfig { url, secret, previous }, current);
        Ok(CheckedConfiguration { config, secret: generated })
    }

    async fn send(
        &self,
        to: &Destination,
        alert: &Alert,
        timeout: Duration,
    ) -> Result<SentMessage, SendError> {
        let config: WebhookConfig = read(&to.config).ok_or_else(SendError::unreadable_config)?;
        let body = payload::body(alert);
        let headers = self.headers(&config, alert, &body);
        let headers = headers.ok_or_else(SendError::unreadable_config)?;
        let call = ProviderCall {
            account: to.account,
            provider: WEBHOOK,
            mask: mask_of_url(&config.url).with(config.secrets()),
            url: config.url,
            headers,
            body,
            timeout,
        };
        self.provider.post(call).await.map(SentMessage::from)
    }
}
