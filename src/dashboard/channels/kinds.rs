//! The types of channels: their names and the fields of their configurations.

use serde_json::{Map, Value};

use crate::dashboard::form::FormFields;
use crate::domain::plan::ChannelType;

/// The prefix of the fields of a configuration, as in the messages of the API.
const PREFIX: &str = "config.";

/// A field of a configuration.
pub(super) struct ConfigField {
    /// The name in the form: the prefix and the name in the API.
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) hint: &'static str,
    /// The type of the input.
    pub(super) input: &'static str,
    pub(super) is_required: bool,
    /// `true` if browsers must not remember the input.
    pub(super) is_secret: bool,
}

const fn field(
    name: &'static str,
    label: &'static str,
    input: &'static str,
    hint: &'static str,
) -> ConfigField {
    ConfigField { name, label, hint, input, is_required: true, is_secret: true }
}

const EMAIL: [ConfigField; 1] = [ConfigField {
    is_secret: false,
    ..field("config.to", "E-mail address", "text", "Alerts are sent to this address.")
}];
const SLACK: [ConfigField; 1] = [field(
    "config.webhookUrl",
    "Webhook URL",
    "url",
    "From Slack: create an app, switch on incoming webhooks, add one for a channel, copy its URL.",
)];
const DISCORD: [ConfigField; 1] = [field(
    "config.webhookUrl",
    "Webhook URL",
    "url",
    "From Discord: settings of a channel, Integrations, Webhooks, New webhook, Copy webhook URL.",
)];
const TELEGRAM: [ConfigField; 2] = [
    field("config.botToken", "Bot token", "text", "From @BotFather, after /newbot."),
    ConfigField {
        is_required: false,
        is_secret: false,
        ..field(
            "config.chatId",
            "Chat id",
            "text",
            "Optional. Without it, write a message to the bot before you verify the channel.",
        )
    },
];
const WEBHOOK: [ConfigField; 2] = [
    field("config.url", "URL", "url", "Each alert is a signed POST request to this URL."),
    ConfigField {
        is_required: false,
        ..field(
            "config.secret",
            "Signing secret",
            "text",
            "Optional: whsec_ and, in base64, 24 to 64 bytes. Without it, one is generated.",
        )
    },
];

/// Returns the name of a type.
pub(in crate::dashboard) fn name(kind: ChannelType) -> &'static str {
    match kind {
        ChannelType::Email => "E-mail",
        ChannelType::Slack => "Slack",
        ChannelType::Discord => "Discord",
        ChannelType::Telegram => "Telegram",
        ChannelType::Webhook => "Webhook",
    }
}

/// Returns the fields of a type's configuration.
pub(super) fn config_fields(kind: ChannelType) -> &'static [ConfigField] {
    match kind {
        ChannelType::Email => &EMAIL,
        ChannelType::Slack => &SLACK,
        ChannelType::Discord => &DISCORD,
        ChannelType::Telegram => &TELEGRAM,
        ChannelType::Webhook => &WEBHOOK,
    }
}

/// Returns the configuration of a form, without its empty fields.
pub(super) fn config(kind: ChannelType, fields: &FormFields) -> Map<String, Value> {
    let given = config_fields(kind).iter().map(|field| {
        let name = field.name.strip_prefix(PREFIX).unwrap_or(field.name);
        (name.to_owned(), fields.text(field.name).trim())
    });
    let filled = given.filter(|(_, value)| !value.is_empty());
    filled.map(|(name, value)| (name, Value::from(value))).collect()
}
