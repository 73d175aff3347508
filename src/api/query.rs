//! Parameters in query strings. Of a name that comes twice the last one counts; an empty value is
//! none; unknown names are ignored.

use std::convert::Infallible;
use std::fmt::Display;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use http::request::Parts;

use crate::domain::Timestamp;
use crate::domain::field_errors::{FieldErrors, HAS_NUL, choices};
use crate::schedules::NOT_AN_INSTANT;

/// The parameters of a request, and what is wrong with them so far.
#[derive(Debug, Default)]
pub(super) struct Query {
    pairs: Vec<(String, String)>,
    errors: FieldErrors,
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default()))
    }
}

impl Query {
    /// Reads any text; bytes that are not UTF-8 are replaced.
    pub(super) fn parse(query: &str) -> Self {
        let pairs = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        Self { pairs, errors: FieldErrors::new() }
    }

    /// Notes what is wrong with a parameter.
    pub(super) fn refuse(&mut self, name: &str, message: impl Into<String>) {
        self.errors.add(name, message);
    }

    /// Something that names an object, whatever it is made of.
    pub(super) fn id(&mut self, name: &str) -> Option<String> {
        let place = self.pairs.iter().rposition(|(given, _)| given == name)?;
        Some(std::mem::take(&mut self.pairs[place].1)).filter(|text| !text.is_empty())
    }

    /// A text.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let place = self.pairs.iter().rposition(|(given, _)| given == name)?;
        let text = std::mem::take(&mut self.pairs[place].1);
        if text.contains('\0') {
            self.refuse(name, HAS_NUL);
            return None;
        }
        Some(text).filter(|text| !text.is_empty())
    }

    /// An integer, moved to the nearest that is allowed.
    pub(super) fn clamped(&mut self, name: &str, min: u32, max: u32) -> Option<u32> {
        let text = self.text(name)?;
        match clamp(&text, min, max) {
            Some(number) => Some(number),
            None => self.refused(name, "Must be an integer"),
        }
    }

    /// One of a few names.
    pub(super) fn one_of<T>(&mut self, name: &str, all: &[T]) -> Option<T>
    where
        T: Display + FromStr,
    {
        match self.text(name)?.parse() {
            Ok(value) => Some(value),
            Err(_) => self.refused(name, choices(all)),
        }
    }

    /// An instant.
    pub(super) fn instant(&mut self, name: &str) -> Option<Timestamp> {
        match self.text(name)?.parse() {
            Ok(instant) => Some(instant),
            Err(_) => self.refused(name, NOT_AN_INSTANT),
        }
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, name: &str) -> Option<bool> {
        match self.text(name)?.parse() {
            Ok(flag) => Some(flag),
            Err(_) => self.refused(name, "Must be true or false"),
        }
    }

    /// `value`, if nothing is wrong.
    pub(super) fn finish<T>(self, value: T) -> Result<T, FieldErrors> {
        self.errors.unless_any(value)
    }

    fn refused<T>(&mut self, name: &str, message: impl Into<String>) -> Option<T> {
        self.refuse(name, message);
        None
    }
}

/// Reads an integer of any length; `None` if it is none.
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
    // Digits alone fail to be read only if there are too many.
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
        let mut query = Query::parse("limit=abc&status=x&from=now&a=%00&limit=&q=a+b%21&q=%ff");
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
