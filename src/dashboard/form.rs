//! The fields of a submitted form, and the errors beside them.

use std::fmt;
use std::str::FromStr;

use axum::extract::{Form, FromRequest, Request};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::PageError;
use crate::domain::field_errors::FieldErrors;
use crate::domain::request_body::object;

/// The fields of a form, in their order.
#[derive(Clone, Default)]
pub(super) struct FormFields(pub(super) Vec<(String, String)>);

impl FormFields {
    /// Returns the fields of a form that is shown with these values.
    pub(super) fn of<N: Into<String>, V: Into<String>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// Returns the chosen number of seconds. Each choice has its seconds and a text.
    pub(super) fn seconds<T: FromStr>(
        &self,
        name: &str,
        choices: &[(&str, &str)],
    ) -> Result<T, PageError> {
        let given = self.text(name);
        let chosen = choices.iter().find(|(value, _)| *value == given);
        let seconds = chosen.and_then(|(value, _)| value.parse().ok());
        seconds.ok_or_else(|| PageError::Refused("Choose an overlap.".to_owned()))
    }

    /// Returns the first value of a field; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_default()
    }

    /// Returns `true` if a box is checked or a button was pressed.
    pub(super) fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// Returns all values of a field.
    pub(super) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(its, _)| its == name).map(|(_, value)| value.as_str())
    }
}

/// Prints only the names of the fields, because their values may be passwords.
impl fmt::Debug for FormFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl<S: Send + Sync> FromRequest<S> for FormFields {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &S) -> Result<Self, PageError> {
        match Form::from_request(request, state).await {
            Ok(Form(fields)) => Ok(Self(fields)),
            Err(error) => Err(PageError::Refused(super::text::sentence(&error.to_string()))),
        }
    }
}

/// Parses an API request from the JSON that a form was converted to, so that the messages are the
/// API's.
pub(super) fn request<T: DeserializeOwned>(json: &Value) -> Result<T, PageError> {
    object(json.to_string().as_bytes()).map_err(|error| PageError::Internal(error.to_string()))
}

/// The messages beside the fields of a form, and above it.
#[derive(Clone, Debug, Default)]
pub(super) struct FormMessages {
    fields: Vec<(String, String)>,
    /// The message that belongs to no field.
    pub(super) general: Option<String>,
}

impl FormMessages {
    /// Returns a message that belongs to no field.
    pub(super) fn general(text: &str) -> Self {
        let general = Some(super::text::sentence(text));
        Self { general, ..Self::default() }
    }

    /// Returns a message beside one field.
    pub(super) fn of_field(field: &str, text: &str) -> Self {
        Self::of_fields(FieldErrors::of(field, text))
    }

    /// Returns the messages of fields.
    pub(super) fn of_fields(errors: FieldErrors) -> Self {
        let sentences = errors.into_iter().map(|(field, messages)| {
            let messages: Vec<_> =
                messages.iter().map(|text| super::text::sentence(text)).collect();
            (field, messages.join(" "))
        });
        Self { fields: sentences.collect(), general: None }
    }

    /// Returns `true` if there is no message.
    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.general.is_none()
    }

    /// Returns the names of the fields with messages, and the messages.
    pub(super) fn of_all_fields(&self) -> &[(String, String)] {
        &self.fields
    }

    /// Returns the message of a field.
    pub(super) fn of(&self, field: &str) -> Option<&str> {
        self.fields.iter().find(|(its, _)| its == field).map(|(_, message)| message.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_printed() {
        let pairs = [("email", "ann@example.com"), ("password", "correct horse")];
        assert_eq!(format!("{:?}", FormFields::of(pairs)), r#"["email", "password"]"#);
    }
}
