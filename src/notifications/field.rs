//! Fields of a request, parsed without failing on a wrong JSON type.
//!
//! A request struct derives `Deserialize` and has a [`Field`] for each field. Deserialization never
//! fails: a value of the wrong JSON type is kept as [`Field::Wrong`] and becomes an error under the
//! name of the field.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

use crate::domain::field_errors::{FieldErrors, REQUIRED};

/// The value that the caller gave for a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Field<T> {
    /// The field is missing.
    #[default]
    Absent,
    /// The field is `null`.
    Null,
    /// A value of the wrong JSON type. The message names the expected type.
    Wrong(&'static str),
    /// A value of the right type.
    Value(T),
}

/// A type that a field can hold.
pub trait FromJson: Sized {
    /// The error message for a value of the wrong JSON type.
    const EXPECTED: &'static str;

    /// Converts a JSON value. Returns `None` if it has the wrong JSON type.
    fn from_json(value: Value) -> Option<Self>;
}

impl<'de, T: FromJson> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::Null => Self::Null,
            value => T::from_json(value).map_or(Self::Wrong(T::EXPECTED), Self::Value),
        })
    }
}

impl<T> Field<T> {
    /// Returns the value, if there is one. Adds an error to `errors` if the type is wrong.
    pub(super) fn optional(self, name: &str, errors: &mut FieldErrors) -> Option<T> {
        match self {
            Self::Absent | Self::Null => None,
            Self::Value(value) => Some(value),
            Self::Wrong(message) => {
                errors.add(name, message);
                None
            }
        }
    }

    /// Returns the value. Adds an error to `errors` if the field is missing, `null` or of the wrong
    /// type.
    pub(super) fn required(self, name: &str, errors: &mut FieldErrors) -> Option<T> {
        if matches!(self, Self::Absent | Self::Null) {
            errors.add(name, REQUIRED);
        }
        self.optional(name, errors)
    }

    /// Returns the value, if the field is present. `null` is an error because the field has no
    /// default.
    pub(super) fn if_given(self, name: &str, errors: &mut FieldErrors) -> Option<T> {
        match self {
            Self::Absent => None,
            given => given.required(name, errors),
        }
    }
}

impl FromJson for String {
    const EXPECTED: &'static str = "Must be a string";

    fn from_json(value: Value) -> Option<Self> {
        if let Value::String(text) = value { Some(text) } else { None }
    }
}

impl FromJson for bool {
    const EXPECTED: &'static str = "Must be a boolean";

    fn from_json(value: Value) -> Option<Self> {
        value.as_bool()
    }
}

/// Accepts every spelling of a whole number, such as `2.0` or `1e2`. A number outside the range of
/// 64 bits becomes the nearest value inside it.
impl FromJson for i64 {
    const EXPECTED: &'static str = "Must be an integer";

    fn from_json(value: Value) -> Option<Self> {
        let number = if let Value::Number(number) = value { number } else { return None };
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

    fn from_json(value: Value) -> Option<Self> {
        let Value::Array(items) = value else { return None };
        items.into_iter().map(String::from_json).collect()
    }
}

impl FromJson for Map<String, Value> {
    const EXPECTED: &'static str = "Must be an object";

    fn from_json(value: Value) -> Option<Self> {
        if let Value::Object(fields) = value { Some(fields) } else { None }
    }
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
            assert_eq!(read::<i64>(text), Field::Wrong("Must be an integer"), "{text}");
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
