//! Fields of a request, parsed without failing on a wrong JSON type.
//!
//! Deserialization never fails: a value of the wrong JSON type is kept as [`Field::Wrong`]. The
//! checks of a command turn a value that breaks a rule into one, too. It becomes an error under the
//! name of the field when the command takes the value.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use crate::domain::field_errors::{FieldErrors, REQUIRED, choices};

/// The value that the caller gave for a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Field<T> {
    /// The field is missing.
    #[default]
    Absent,
    /// The field is `null`.
    Null,
    /// A value of the wrong JSON type, or one that breaks a rule. The message names the expected
    /// value.
    Wrong(String),
    /// A value that is right so far.
    Value(T),
}

/// A type that a field can hold.
pub trait FromJson: DeserializeOwned {
    /// The error message for a value of the wrong JSON type.
    const EXPECTED: &'static str;

    /// Parses a JSON value. Returns `None` if it has the wrong JSON type.
    fn from_json(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }
}

impl<'de, T: FromJson> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The text, not a tree: a large array in the place of a string takes no memory.
        let json = <&RawValue>::deserialize(deserializer)?.get();
        Ok(match json {
            "null" => Self::Null,
            _ => {
                T::from_json(json).map_or_else(|| Self::Wrong(T::EXPECTED.to_owned()), Self::Value)
            }
        })
    }
}

impl<T> Field<T> {
    /// Returns the value, if there is one.
    pub fn value(self) -> Option<T> {
        if let Self::Value(value) = self { Some(value) } else { None }
    }

    /// Returns the value, if there is one. Adds an error to `errors` if it is wrong.
    pub fn optional(self, name: &str, errors: &mut FieldErrors) -> Option<T> {
        match self {
            Self::Absent | Self::Null => None,
            Self::Value(value) => Some(value),
            Self::Wrong(message) => {
                errors.add(name, message);
                None
            }
        }
    }

    /// Returns the value. Adds an error to `errors` if the field is missing, `null` or wrong.
    pub fn required(self, name: &str, errors: &mut FieldErrors) -> Option<T> {
        if matches!(self, Self::Absent | Self::Null) {
            errors.add(name, REQUIRED);
        }
        self.optional(name, errors)
    }

    /// Returns the value, if the field is present. `null` is an error because the field has no
    /// default.
    pub fn if_given(self, name: &str, errors: &mut FieldErrors) -> Option<T> {
        match self {
            Self::Absent => None,
            given => given.required(name, errors),
        }
    }

    /// Converts a value.
    pub fn map<U>(self, with: impl FnOnce(T) -> U) -> Field<U> {
        self.convert(|value| Ok::<_, &str>(with(value)))
    }

    /// Converts a value that may break a rule. If it does, the field is wrong.
    pub fn convert<U, E: ToString>(self, rule: impl FnOnce(T) -> Result<U, E>) -> Field<U> {
        match self {
            Self::Absent => Field::Absent,
            Self::Null => Field::Null,
            Self::Wrong(message) => Field::Wrong(message),
            Self::Value(value) => match rule(value) {
                Ok(value) => Field::Value(value),
                Err(error) => Field::Wrong(error.to_string()),
            },
        }
    }
}

impl Field<String> {
    /// Checks a text. If it breaks the rule, the field is wrong.
    pub fn check<E: ToString>(self, rule: impl FnOnce(&str) -> Result<(), E>) -> Self {
        self.convert(|text| rule(&text).map(|()| text))
    }

    /// Reads a text that `is_blank` as `null`.
    pub fn null_if(self, is_blank: impl FnOnce(&str) -> bool) -> Self {
        match self {
            Self::Value(text) if is_blank(&text) => Self::Null,
            other => other,
        }
    }

    /// Reads a text as the name of one of `all`.
    pub fn one_of<T: Copy + Display + FromStr>(self, all: &[T]) -> Field<T> {
        self.convert(|text| text.parse().map_err(|_| choices(all)))
    }
}

impl Field<i64> {
    /// Replaces a number outside of the range with the nearest one inside it.
    pub fn clamp<T: TryFrom<i64>>(self, min: i64, max: i64) -> Field<T> {
        self.convert(|number| T::try_from(number.clamp(min, max)).map_err(|_| i64::EXPECTED))
    }
}

impl FromJson for String {
    const EXPECTED: &'static str = "Must be a string";
}

impl FromJson for bool {
    const EXPECTED: &'static str = "Must be a boolean";
}

/// Accepts every spelling of a whole number, such as `2.0` or `1e2`. A number outside the range of
/// 64 bits becomes the nearest value inside it.
impl FromJson for i64 {
    const EXPECTED: &'static str = "Must be an integer";

    fn from_json(json: &str) -> Option<Self> {
        let number: Number = serde_json::from_str(json).ok()?;
        let beyond = || number.as_u64().map(|_| Self::MAX);
        number.as_i64().or_else(beyond).or_else(|| whole(&number))
    }
}

fn whole(number: &Number) -> Option<i64> {
    let value = number.as_f64().filter(|value| value.fract() == 0.0)?;
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates, as wanted")]
    Some(value as i64)
}

impl FromJson for Vec<String> {
    const EXPECTED: &'static str = "Must be an array of strings";
}

impl FromJson for Map<String, Value> {
    const EXPECTED: &'static str = "Must be an object";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: FromJson>(text: &str) -> Field<T> {
        serde_json::from_str(text).expect("any JSON value can be read")
    }

    #[test]
    fn integers_are_read_in_any_spelling_and_nothing_else_is() {
        for (text, value) in [
            ("2", 2),
            ("-0", 0),
            ("2.0", 2),
            ("1e2", 100),
            ("9223372036854775808", i64::MAX),
            ("99999999999999999999", i64::MAX),
            ("-1e300", i64::MIN),
        ] {
            assert_eq!(read::<i64>(text), Field::Value(value), "{text}");
        }
        for text in ["2.5", "\"2\"", "true", "[2]", "{}"] {
            assert_eq!(read::<i64>(text), Field::Wrong("Must be an integer".into()), "{text}");
        }
    }

    #[test]
    fn a_wrong_type_is_an_error_under_its_field() {
        let mut errors = FieldErrors::new();
        assert_eq!(read::<String>("1").optional("a", &mut errors), None);
        assert_eq!(read::<bool>("\"true\"").optional("b", &mut errors), None);
        assert_eq!(read::<Vec<String>>("[\"x\", 1]").optional("c", &mut errors), None);
        assert_eq!(read::<Map<String, Value>>("[]").optional("d", &mut errors), None);
        assert_eq!(
            errors.to_string(),
            "a: Must be a string; b: Must be a boolean; c: Must be an array of strings; \
             d: Must be an object"
        );
    }

    #[test]
    fn absent_and_null_differ_where_there_is_no_default() {
        let mut errors = FieldErrors::new();
        assert_eq!(Field::<bool>::Absent.if_given("a", &mut errors), None);
        assert_eq!(Field::<bool>::Null.optional("b", &mut errors), None);
        assert!(errors.is_empty());
        assert_eq!(Field::<bool>::Null.if_given("c", &mut errors), None);
        assert_eq!(Field::<bool>::Absent.required("d", &mut errors), None);
        assert_eq!(errors.to_string(), "c: Required; d: Required");
    }
}
