//! Reads the `config` object of a request, and stored configurations.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::chat_url::{AllowedHosts, WebhookRule};
use super::provider::ProviderClient;
use crate::domain::channel::ChannelConfig;
use crate::domain::endpoint::Endpoint;
use crate::domain::field_errors::FieldErrors;

/// Reads fields of a `config` object and collects an error for each invalid one.
pub struct ConfigFields<'a> {
    given: &'a Map<String, Value>,
    errors: FieldErrors,
}

impl<'a> ConfigFields<'a> {
    /// Reads from `given`. Unknown fields are ignored.
    pub fn new(given: &'a Map<String, Value>) -> Self {
        Self { given, errors: FieldErrors::new() }
    }

    /// Returns a field's value; `null` counts as absent.
    pub fn value(&self, name: &str) -> Option<&'a Value> {
        self.given.get(name).filter(|value| !value.is_null())
    }

    /// Returns a required text.
    pub fn required(&mut self, name: &str) -> Option<&'a str> {
        if self.value(name).is_none() {
            self.refuse(name, "Required");
        }
        self.optional(name)
    }

    /// Returns an optional text.
    pub fn optional(&mut self, name: &str) -> Option<&'a str> {
        let value = self.value(name)?;
        if !value.is_string() {
            self.refuse(name, "Must be a string");
        }
        value.as_str()
    }

    /// Returns the checked webhook URL of a chat provider.
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

    /// Records an error for a field.
    pub fn refuse(&mut self, name: &str, message: impl Into<String>) {
        self.errors.add(format!("config.{name}"), message);
    }

    /// Returns the checked value or the errors. `value` is `None` only if there are errors.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, FieldErrors> {
        match (self.errors.is_empty(), value) {
            (true, Some(value)) => Ok(value),
            (true, None) => Err(FieldErrors::of("config", "Is not complete")),
            (false, _) => Err(self.errors),
        }
    }
}

/// Parses a stored configuration; `None` if it does not match this type.
pub fn read<T: DeserializeOwned>(config: &ChannelConfig) -> Option<T> {
    serde_json::from_str(config.reveal()).ok()
}

/// Serializes a configuration. If it equals `current`, it returns `current` itself, so that a
/// caller can compare the bytes.
pub fn write<T>(config: &T, current: Option<&ChannelConfig>) -> ChannelConfig
where
    T: Serialize + DeserializeOwned + PartialEq,
{
    if let Some(current) = current
        && read::<T>(current).as_ref() == Some(config)
    {
        return current.clone();
    }
    // Serializing a struct of texts and numbers cannot fail.
    ChannelConfig::new(serde_json::to_string(config).unwrap_or_default())
}
