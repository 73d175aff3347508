//! Parameters in query strings. If a name occurs twice, the last value counts. An empty value
//! counts as absent. Unknown names are ignored.

use std::convert::Infallible;
use std::fmt::Display;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use http::request::Parts;

use crate::domain::Timestamp;
use crate::domain::field_errors::{FieldErrors, HAS_NUL, NOT_AN_INSTANT, choices};

/// The parameters of a request, and the errors found in them so far.
#[derive(Debug, Default)]
pub(super) struct QueryParameters {
    pairs: Vec<(String, String)>,
    errors: FieldErrors,
}

impl<S: Sync> FromRequestParts<S> for QueryParameters {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default()))
    }
}

impl QueryParameters {
    /// Parses any query string. Bytes that are not UTF-8 are replaced.
    pub(super) fn parse(query: &str) -> Self {
        let pairs = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Self { pairs, errors: FieldErrors::new() }
    }

    /// Adds an error about a parameter.
    pub(super) fn refuse(&mut self, name: &str, message: impl Into<String>) {
        self.errors.add(name, message);
    }

    /// Returns the text of an id. Its form is not checked, since a malformed id is no error here:
    /// it matches nothing.
    pub(super) fn id(&mut self, name: &str) -> Option<String> {
        let place = self.pairs.iter().rposition(|(given, _)| given == name)?;
        Some(std::mem::take(&mut self.pairs[place].1)).filter(|text| !text.is_empty())
    }

    /// Returns a text. A NUL character in it is an error.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let place = self.pairs.iter().rposition(|(given, _)| given == name)?;
        let text = std::mem::take(&mut self.pairs[place].1);
        if text.contains('\0') {
            self.refuse(name, HAS_NUL);
            return None;
        }
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns an integer, clamped to the range from `min` to `max`.
    pub(super) fn clamped(&mut self, name: &str, min: u32, max: u32) -> Option<u32> {
        let text = self.text(name)?;
        match clamp(&text, min, max) {
            Some(number) => Some(number),
            None => self.refused(name, "Must be an integer"),
        }
    }

    /// Returns a value that must be one of the names of `all`.
    pub(super) fn one_of<T>(&mut self, name: &str, all: &[T]) -> Option<T>
    where
        T: Display + FromStr,
    {
        match self.text(name)?.parse() {
            Ok(value) => Some(value),
            Err(_) => self.refused(name, choices(all)),
        }
    }

    /// Returns an instant.
    pub(super) fn instant(&mut self, name: &str) -> Option<Timestamp> {
        match self.text(name)?.parse() {
            Ok(instant) => Some(instant),
            Err(_) => self.refused(name, NOT_AN_INSTANT),
        }
    }

    /// Returns a flag, which must be `true` or `false`.
    pub(super) fn flag(&mut self, name: &str) -> Option<bool> {
        match self.text(name)?.parse() {
            Ok(flag) => Some(flag),
            Err(_) => self.refused(name, "Must be true or false"),
        }
    }

    /// Returns `value`, or the errors if there are any.
    pub(super) fn finish<T>(self, value: T) -> Result<T, FieldErrors> {
        self.errors.unless_any(value)
    }

    fn refused<T>(&mut self, name: &str, message: impl Into<String>) -> Option<T> {
        self.refuse(name, message);
        None
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
mod tests {
    use super::*;
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

    #[test]
    fn wrong_values_are_named_and_empty_ones_absent() {
        let mut query =
            QueryParameters::parse("limit=abc&status=x&from=now&a=%00&limit=&q=a+b%21&q=%ff");
        assert_eq!(query.clamped("limit", 1, 9), None, "the last one counts, and it is empty");
        assert_eq!(query.text("q").as_deref(), Some("\u{fffd}"));
        assert_eq!(query.one_of("status", JobStatus::ALL), None);
        assert_eq!(query.instant("from"), None);
        assert_eq!(query.text("a"), None);
        let errors = query.finish(()).expect_err("three are wrong").to_string();
        assert!(errors.contains("status: Must be one of PENDING, RUNNING, SUCCESS, FAILED"));
        assert!(errors.contains("from: Must be an ISO 8601") && errors.contains("a: Must not"));
        assert!(!errors.contains("limit"));
    }
}
