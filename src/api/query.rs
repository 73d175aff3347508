//! Parameters in query strings.
//!
//! The query of a request is one struct of [`Parameter`]s. It derives `Deserialize`, which reads it,
//! and `IntoParams`, which documents it, so both always have the same parameters. If a name occurs
//! twice, the last value counts. An empty value counts as absent. Unknown names are ignored.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Display;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::de::DeserializeOwned;
use serde::de::value::{Error, MapDeserializer};
use serde::{Deserialize, Deserializer};

use crate::domain::Timestamp;
use crate::domain::field_errors::{FieldErrors, HAS_NUL, NOT_AN_INSTANT, choices};

/// Extracts the parameters of a request. They are not checked yet.
#[derive(Debug)]
pub(super) struct QueryParameters<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for QueryParameters<T> {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parse(parts.uri.query().unwrap_or_default())))
    }
}

/// Parses any query string. Bytes that are not UTF-8 are replaced.
fn parse<T: DeserializeOwned>(query: &str) -> T {
    let last_values: BTreeMap<Cow<'_, str>, Cow<'_, str>> =
        url::form_urlencoded::parse(query.as_bytes()).collect();
    let given = last_values.into_iter().filter(|(_, value)| !value.is_empty());
    T::deserialize(MapDeserializer::<_, Error>::new(given)).expect("parameters accept any text")
}

/// The value of a parameter as the client gave it, if it did.
#[derive(Debug, Default)]
pub(super) struct Parameter(Option<String>);

impl<'de> Deserialize<'de> for Parameter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Some(text)))
    }
}

/// Each method takes the name of the parameter, and adds an error under this name if the value is
/// not valid.
impl Parameter {
    /// Returns the parsed id. A malformed id cannot match anything, so it is no error of the
    /// parameter, but the inner error.
    pub(super) fn id<T: FromStr>(self) -> Option<Result<T, T::Err>> {
        self.0.map(|text| text.parse())
    }

    /// Returns a text. A NUL character in it is an error.
    pub(super) fn text(self, name: &str, errors: &mut FieldErrors) -> Option<String> {
        if self.0.as_ref().is_some_and(|text| text.contains('\0')) {
            errors.add(name, HAS_NUL);
            return None;
        }
        self.0
    }

    /// Returns an integer, clamped to the range from `min` to `max`.
    pub(super) fn clamped(
        self,
        name: &str,
        (min, max): (u32, u32),
        errors: &mut FieldErrors,
    ) -> Option<u32> {
        self.parse(name, errors, |text| clamp(text, min, max).ok_or("Must be an integer"))
    }

    /// Returns a value that must be one of the names of `all`.
    pub(super) fn one_of<T>(self, name: &str, all: &[T], errors: &mut FieldErrors) -> Option<T>
    where
        T: Display + FromStr,
    {
        self.parse(name, errors, |text| text.parse().map_err(|_| choices(all)))
    }

    /// Returns an instant.
    pub(super) fn instant(self, name: &str, errors: &mut FieldErrors) -> Option<Timestamp> {
        self.parse(name, errors, |text| text.parse().map_err(|_| NOT_AN_INSTANT))
    }

    /// Returns a flag, which must be `true` or `false`.
    pub(super) fn flag(self, name: &str, errors: &mut FieldErrors) -> Option<bool> {
        self.parse(name, errors, |text| text.parse().map_err(|_| "Must be true or false"))
    }

    /// Returns the value that `rule` makes of the text.
    pub(super) fn parse<T, E: Into<String>>(
        self,
        name: &str,
        errors: &mut FieldErrors,
        rule: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        match rule(&self.text(name, errors)?) {
            Ok(value) => Some(value),
            Err(message) => {
                errors.add(name, message);
                None
            }
        }
    }
}

/// Parses and clamps an integer of any length. Returns `None` if the text is not an integer.
fn clamp(text: &str, min: u32, max: u32) -> Option<u32> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    if negative {
        return Some(min);
    }
    // A text of digits fails to parse only if the number is too large.
    Some(text.parse().unwrap_or(max).clamp(min, max))
}

#[cfg(test)]
impl Parameter {
    /// Returns the parameter with this value. The empty text is an absent value.
    pub(super) fn of(text: &str) -> Self {
        Self(Some(text.to_owned()).filter(|text| !text.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ScheduleId;
    use crate::domain::job::JobStatus;

    #[test]
    fn integers_are_clamped_and_other_texts_refused() {
        for (text, number) in [
            ("5", Some(5)),
            ("0", Some(1)),
            ("-1", Some(1)),
            ("101", Some(100)),
            ("99999999999999999999999", Some(100)),
            ("-99999999999999999999999", Some(1)),
            ("007", Some(7)),
            ("", None),
            ("-", None),
            ("+5", None),
            ("1e3", None),
            ("2.5", None),
            ("abc", None),
            ("٣", None),
        ] {
            assert_eq!(clamp(text, 1, 100), number, "{text:?}");
        }
    }

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct TestQuery {
        limit: Parameter,
        status: Parameter,
        from: Parameter,
        a: Parameter,
        q: Parameter,
        schedule: Parameter,
    }

    #[test]
    fn wrong_values_are_named_and_empty_ones_absent() {
        let query: TestQuery =
            parse("limit=abc&status=x&from=now&a=%00&limit=&q=a+b%21&q=%ff&other=1&schedule=x");
        let mut errors = FieldErrors::new();
        let limit = query.limit.clamped("limit", (1, 9), &mut errors);
        assert_eq!(limit, None, "the last one counts, and it is empty");
        assert_eq!(query.q.text("q", &mut errors).as_deref(), Some("\u{fffd}"));
        assert_eq!(query.status.one_of("status", JobStatus::ALL, &mut errors), None);
        assert_eq!(query.from.instant("from", &mut errors), None);
        assert_eq!(query.a.text("a", &mut errors), None);
        assert!(query.schedule.id::<ScheduleId>().expect("given").is_err(), "it matches nothing");
        let errors = errors.to_string();
        assert!(errors.contains("status: Must be one of PENDING, RUNNING, SUCCESS, FAILED"));
        assert!(errors.contains("from: Must be an ISO 8601") && errors.contains("a: Must not"));
        assert!(!errors.contains("limit") && !errors.contains("schedule"));
    }
}
