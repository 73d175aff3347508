//! Error messages by field.

use std::collections::{BTreeMap, btree_map};
use std::fmt::{self, Display, Write};

use serde::Serialize;

/// The message for a field that has no default and is missing or `null`.
pub const REQUIRED: &str = "Required";
/// The message for a text with a NUL character: PostgreSQL cannot store one, so all stores refuse
/// it.
pub const HAS_NUL: &str = "Must not contain NUL characters";

/// The message for a text that is not a timestamp.
pub const NOT_AN_INSTANT: &str = "Must be an ISO 8601 timestamp such as 2030-01-31T09:00:00Z";

/// Returns the message for a text that is none of the names in `all`.
pub fn choices<T: Display>(all: &[T]) -> String {
    let mut message = String::from("Must be one of ");
    for (position, item) in all.iter().enumerate() {
        let separator = if position > 0 { ", " } else { "" };
        write!(message, "{separator}{item}").expect("writing to memory does not fail");
    }
    message
}

/// Error messages, keyed by the name of the field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct FieldErrors(BTreeMap<String, Vec<String>>);

impl FieldErrors {
    /// Returns an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns one message about one field.
    pub fn of(field: impl Into<String>, message: impl Into<String>) -> Self {
        let mut errors = Self::new();
        errors.add(field, message);
        errors
    }

    /// Adds a message about a field.
    pub fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.entry(field.into()).or_default().push(message.into());
    }

    /// Adds all messages of `others`.
    pub fn extend(&mut self, others: Self) {
        for (field, messages) in others.0 {
            self.0.entry(field).or_default().extend(messages);
        }
    }

    /// Puts `prefix` before the names of all fields.
    pub fn with_prefix(self, prefix: &str) -> Self {
        let renamed = |(field, messages)| (format!("{prefix}{field}"), messages);
        Self(self.0.into_iter().map(renamed).collect())
    }

    /// Removes `prefix` from the names of fields that begin with it.
    pub fn without_prefix(self, prefix: &str) -> Self {
        let mut renamed = Self::new();
        for (field, messages) in self.0 {
            let name = field.strip_prefix(prefix).map_or(field.clone(), str::to_owned);
            renamed.0.entry(name).or_default().extend(messages);
        }
        renamed
    }

    /// Returns `true` if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `value` if there are no messages, otherwise the messages.
    pub fn unless_any<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl IntoIterator for FieldErrors {
    type Item = (String, Vec<String>);
    type IntoIter = btree_map::IntoIter<String, Vec<String>>;

    /// Returns the fields with their messages, sorted by name.
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (field, messages)) in self.0.iter().enumerate() {
            let separator = if position > 0 { "; " } else { "" };
            write!(f, "{separator}{field}: {}", messages.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_merged_and_renamed() {
        let mut errors = FieldErrors::of("a", "1");
        errors.extend(FieldErrors::of("a", "2"));
        errors.extend(FieldErrors::of("config.a", "3"));
        assert_eq!(errors.to_string(), "a: 1, 2; config.a: 3");
        assert_eq!(errors.clone().with_prefix("7.").to_string(), "7.a: 1, 2; 7.config.a: 3");
        assert_eq!(errors.without_prefix("config.").to_string(), "a: 1, 2, 3");
    }
}
