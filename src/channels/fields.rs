//! Reads the `config` object of a request, and the configurations that are stored.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::chat_url::{AllowedHosts, WebhookRule};
use super::provider::ProviderClient;
use crate::domain::channel::ChannelConfig;
use crate::domain::endpoint::Endpoint;
use crate::domain::field_errors::FieldErrors;

/// Reads fields of a `config` object and collects an error for each wrong one.
pub struct Fields<'a> {
    given: &'a Map<String, Value>,
    errors: FieldErrors,
}

impl<'a> Fields<'a> {
    /// Reads from `given`. Fields that nobody asks for are ignored.
    pub fn new(given: &'a Map<String, Value>) -> Self {
        Self { given, errors: FieldErrors::new() }
    }

    /// A field's value; `null` counts as absent.
    pub fn value(&self, name: &str) -> Option<&'a Value> {
        self.given.get(name).filter(|value| !value.is_null())
    }

    /// A text that must be given.
    pub fn required(&mut self, name: &str) -> Option<&'a str> {
        if self.value(name).is_none() {
            self.refuse(name, "Required");
        }
        self.optional(name)
    }

    /// A text that may be absent.
    pub fn optional(&mut self, name: &str) -> Option<&'a str> {
        let value = self.value(name)?;
        if !value.is_string() {
            self.refuse(name, "Must be a string");
        }
        value.as_str()
    }

    /// The webhook URL of a chat provider.
    pub fn webhook_url(
        &mut self,
        rule: &WebhookRule,
        allowed: &AllowedHosts,
        provider: &ProviderClient,
    ) -> Option<Endpoint> {
        const NAME: &str = "webhookUrl";
        let text = self.required(NAME)?;
        let read = rule.read(text, allowed).map_err(str::to_owned);
        let checked = read.and_then(|endpoint| {
            let refused = provider.check(endpoint.url().as_str());
            refused.map(|()| endpoint).map_err(|refused| refused.to_string())
        });
        checked.map_err(|message| self.refuse(NAME, message)).ok()
    }

    /// Adds an error about a field.
    pub fn refuse(&mut self, name: &str, message: impl Into<String>) {
        self.errors.add(format!("config.{name}"), message);
    }

    /// The checked value, or the errors. `value` is absent only if there are errors.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, FieldErrors> {
        match (self.errors.is_empty(), value) {
            (true, Some(value)) => Ok(value),
            (true, None) => Err(FieldErrors::of("config", "Is not complete")),
            (false, _) => Err(self.errors),
        }
    }
}

/// Reads a stored configuration; `None` if it is not one of this type.
pub fn read<T: DeserializeOwned>(config: &ChannelConfig) -> Option<T> {
    serde_json::from_str(config.reveal()).ok()
}

/// Writes a configuration. Returns `current` itself if it says the same, so that a caller can
/// compare the two.
pub fn write<T>(config: &T, current: Option<&ChannelConfig>) -> ChannelConfig
where
    T: Serialize + DeserializeOwned + PartialEq,
{
    if let Some(current) = current
        && read::<T>(current).as_ref() == Some(config)
    {
        return current.clone();
    }
    // A struct of texts and numbers: writing it cannot fail.
    ChannelConfig::new(serde_json::to_string(config).unwrap_or_default())
}
