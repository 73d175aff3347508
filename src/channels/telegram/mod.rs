//! The Telegram channel: a bot that writes to one chat.
//!
//! Without a `chatId`, the channel uses the chat of the newest message to the bot. Sending finds
//! that chat and returns it in the configuration, so that the lookup happens only once.

mod chat;
mod render;

use std::time::Duration;

use async_trait::async_trait;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use self::chat::ChatId;
use super::contract::{ChannelAdapter, CheckedConfiguration, Destination, SendError, SentMessage};
use super::fields::{ConfigFields, read, write};
use super::message::Message;
use super::provider::{Provider, ProviderAnswer, ProviderCall, ProviderClient};
use crate::domain::alert::Mask;
use crate::domain::alert::content::Alert;
use crate::domain::alert::delivery::DeliveryError;
use crate::domain::channel::ChannelConfig;
use crate::domain::field_errors::FieldErrors;

const TELEGRAM: Provider = Provider {
    name: "Telegram",
    destination: "The Telegram bot",
    gone_on_404: true,
    advice: "Ask @BotFather for the bot's token and set it.",
};

const WRONG_TOKEN: &str =
    "Must be a bot token of Telegram such as 123456789:AAE…, as @BotFather shows it";
const WRONG_CHAT: &str = "Must be a number or the @name of a public chat";

/// The maximum length of a token's bot number, and the allowed lengths of its secret, in
/// characters.
const MAX_BOT: usize = 20;
const SECRET_LENGTHS: std::ops::RangeInclusive<usize> = 20..=100;

#[derive(Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct TelegramConfig {
    bot_token: String,
    /// The chat id from the user.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    chat_id: Option<ChatId>,
    /// The chat id that was found.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    found_chat_id: Option<ChatId>,
}

/// The Telegram channel type.
pub struct Telegram {
    provider: ProviderClient,
    url: String,
}

impl Telegram {
    /// Creates the channel type. It calls the service at `url` through `provider`.
    pub fn new(provider: ProviderClient, url: String) -> Self {
        Self { provider, url }
    }

    async fn call(
        &self,
        to: &Destination,
        token: &str,
        method: &str,
        body: &Value,
        timeout: Duration,
    ) -> Result<ProviderAnswer, SendError> {
        let secret = token.split_once(':').map(|(_, secret)| secret.to_owned());
        let call = ProviderCall {
            account: to.account,
            provider: TELEGRAM,
            url: format!("{}/bot{token}/{method}", self.url),
            headers: HeaderMap::new(),
            body: body.to_string().into_bytes(),
            timeout,
            mask: Mask::default().with(secret.into_iter().chain([token.to_owned()])),
        };
        self.provider.post(call).await
    }

    /// Returns the chat of the newest message to the bot. Requests only the last update, because
    /// all updates together may exceed the size limit of a response.
    async fn find_chat(
        &self,
        to: &Destination,
        token: &str,
        timeout: Duration,
    ) -> Result<ChatId, SendError> {
        let body = json!({ "offset": -1, "limit": 1, "timeout": 0 });
        let answer = self.call(to, token, "getUpdates", &body, timeout).await?;
        let updates = chat::newest(&answer.body).map_err(|message| SendError {
            status: Some(answer.status),
            response: answer.excerpt,
            ..SendError::new(DeliveryError::Network, message)
        })?;
        updates.ok_or_else(|| {
            let message = "Send any message to the bot, then verify the channel again.";
            SendError::new(DeliveryError::NoChat, message)
        })
    }
}

#[async_trait]
impl ChannelAdapter for Telegram {
    fn configure(
        &self,
        given: &Map<String, Value>,
        current: Option<&ChannelConfig>,
    ) -> Result<CheckedConfiguration, FieldErrors> {
        let mut fields = ConfigFields::new(given);
        let token = fields.required("botToken").map(str::trim);
        if token.is_some_and(|token| !is_token(token)) {
            fields.refuse("botToken", WRONG_TOKEN);
        }
        let chat_id = fields.value("chatId").map(ChatId::read);
        if chat_id == Some(None) {
            fields.refuse("chatId", WRONG_CHAT);
        }
        let (bot_token, chat_id) = (fields.finish(token)?.to_owned(), chat_id.flatten());
        let before: Option<TelegramConfig> = current.and_then(read);
        let same_bot = before.filter(|before| before.bot_token == bot_token && chat_id.is_none());
        let found_chat_id = same_bot.and_then(|before| before.found_chat_id);
        let config = write(&TelegramConfig { bot_token, chat_id, found_chat_id }, current);
        Ok(CheckedConfiguration { config, secret: None })
    }

    async fn send(
        &self,
        to: &Destination,
        alert: &Alert,
        timeout: Duration,
    ) -> Result<SentMessage, SendError> {
        let config: TelegramConfig = read(&to.config).ok_or_else(SendError::unreadable_config)?;
        let token = config.bot_token.clone();
        let clock = self.provider.clock();
        let started = clock.monotonic();
        let known = config.chat_id.clone().or_else(|| config.found_chat_id.clone());
        let (chat, found) = match known {
            Some(chat) => (chat, None),
            None => {
                let chat = self.find_chat(to, &token, timeout).await?;
                let found_chat_id = Some(chat.clone());
                let completed = TelegramConfig { found_chat_id, ..config };
                (chat, Some(write(&completed, Some(&to.config))))
            }
        };
        let left = timeout.saturating_sub(clock.monotonic().saturating_sub(started));
        let body = render::payload(&Message::new(alert), &chat);
        let answer = self.call(to, &token, "sendMessage", &body, left).await?;
        Ok(SentMessage { config: found, ..answer.into() })
    }
}

/// Returns `true` if a text has the form of a token, `NUMBER:SECRET`. The token becomes a part of a
/// URL path, so no other characters are allowed.
fn is_token(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    text.split_once(':').is_some_and(|(bot, secret)| {
        (1..=MAX_BOT).contains(&bot.len())
            && bot.bytes().all(|byte| byte.is_ascii_digit())
            && SECRET_LENGTHS.contains(&secret.len())
            && secret.bytes().all(plain)
    })
}
