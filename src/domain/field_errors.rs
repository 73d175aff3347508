//! What is wrong with which field.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// Messages by the name of the field they are about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct FieldErrors(BTreeMap<String, Vec<String>>);

impl FieldErrors {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One message about one field.
    pub fn of(field: impl Into<String>, message: impl Into<String>) -> Self {
        let mut errors = Self::new();
        errors.add(field, message);
        errors
    }

    /// Adds a message about a field.
    pub fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.entry(field.into()).or_default().push(message.into());
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `value`, if there are none.
    pub fn unless_any<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (field, messages)) in self.0.iter().enumerate() {
            let separator = if place > 0 { "; " } else { "" };
            write!(f, "{separator}{field}: {}", messages.join(", "))?;
        }
        Ok(())
    }
}
