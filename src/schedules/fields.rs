//! Typed access to the fields of an object. Errors are recorded under the field's name.

use std::fmt::Display;
use std::str::FromStr;

use super::FieldErrors;
use super::json::{Json, Object};
use crate::domain::Timestamp;
use crate::domain::field_errors::{REQUIRED, choices};

/// The operation that the input is for; it decides which fields are required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Every field without a default is required.
    Creation,
    /// No field is required, but a field without a default cannot be cleared.
    Change,
}

/// The user's input for one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Given<T> {
    /// The field is absent.
    Absent,
    /// The field is `null`: it takes its default.
    Null,
    /// The value is invalid; the error is already recorded.
    Wrong,
    /// A checked value.
    Value(T),
}

impl<T> Given<T> {
    /// Passes a value to `check` and returns the result; the other variants stay as they are.
    pub(super) fn and_then<U>(self, check: impl FnOnce(T) -> Given<U>) -> Given<U> {
        match self {
            Self::Absent => Given::Absent,
            Self::Null => Given::Null,
            Self::Wrong => Given::Wrong,
            Self::Value(value) => check(value),
        }
    }

    /// Overwrites `current` with the value, or with `default` if the field is `null`.
    pub(super) fn write_over(self, current: &mut T, default: T) {
        match self {
            Self::Value(value) => *current = value,
            Self::Null => *current = default,
            Self::Absent | Self::Wrong => {}
        }
    }

    /// Overwrites `current` with the value, or with `None` if the field is `null`.
    pub(super) fn write_over_optional(self, current: &mut Option<T>) {
        match self {
            Self::Value(value) => *current = Some(value),
            Self::Null => *current = None,
            Self::Absent | Self::Wrong => {}
        }
    }

    /// Returns the value, if there is one.
    pub(super) fn value(self) -> Option<T> {
        if let Self::Value(value) = self { Some(value) } else { None }
    }
}

/// The fields of an object and the errors found so far.
pub(super) struct Fields<'a> {
    object: Object,
    prefix: String,
    errors: &'a mut FieldErrors,
}

impl<'a> Fields<'a> {
    /// Wraps the fields of `object`. `prefix` precedes the field names in errors.
    pub(super) fn new(
        object: Object,
        prefix: impl Into<String>,
        errors: &'a mut FieldErrors,
    ) -> Self {
        Self { object, prefix: prefix.into(), errors }
    }

    /// Records an error for a field.
    pub(super) fn refuse<T>(&mut self, name: &str, message: impl Into<String>) -> Given<T> {
        self.errors.add(format!("{}{name}", self.prefix), message);
        Given::Wrong
    }

    /// Takes a string field.
    pub(super) fn text(&mut self, name: &str) -> Given<String> {
        match self.object.take(name) {
            None => Given::Absent,
            Some(Json::Null) => Given::Null,
            Some(Json::Text(text)) => Given::Value(text),
            Some(_) => self.refuse(name, "Must be a string"),
        }
    }

    /// Takes a boolean field.
    pub(super) fn flag(&mut self, name: &str) -> Given<bool> {
        match self.object.take(name) {
            None => Given::Absent,
            Some(Json::Null) => Given::Null,
            Some(Json::Bool(flag)) => Given::Value(flag),
            Some(_) => self.refuse(name, "Must be a boolean"),
        }
    }

    /// Takes an integer field, clamped to `min..=max`.
    pub(super) fn clamped<T: TryFrom<i64>>(&mut self, name: &str, min: i64, max: i64) -> Given<T> {
        match self.object.take(name) {
            None => Given::Absent,
            Some(Json::Null) => Given::Null,
            Some(Json::Integer(value)) => match T::try_from(value.clamp(min, max)) {
                Ok(value) => Given::Value(value),
                Err(_) => self.refuse(name, "Must be an integer"),
            },
            Some(_) => self.refuse(name, "Must be an integer"),
        }
    }

    /// Takes a field whose value must be one of the names of `all`.
    pub(super) fn one_of<T>(&mut self, name: &str, all: &[T]) -> Given<T>
    where
        T: Copy + Display + FromStr,
    {
        self.text(name).and_then(|text| match text.parse() {
            Ok(value) => Given::Value(value),
            Err(_) => self.refuse(name, choices(all)),
        })
    }

    /// Takes a field whose value must be one of the names of `all`; an empty string means the
    /// default.
    pub(super) fn one_of_or_default<T>(&mut self, name: &str, all: &[T]) -> Given<T>
    where
        T: Copy + Display + FromStr,
    {
        self.text(name).and_then(|text| match text.parse() {
            _ if text.is_empty() => Given::Null,
            Ok(value) => Given::Value(value),
            Err(_) => self.refuse(name, choices(all)),
        })
    }

    /// Takes a timestamp field.
    pub(super) fn instant(&mut self, name: &str) -> Given<Timestamp> {
        self.text(name).and_then(|text| match text.parse() {
            Ok(instant) => Given::Value(instant),
            Err(_) => self.refuse(name, NOT_AN_INSTANT),
        })
    }

    /// Records an error if a required field is missing or set to `null`.
    pub(super) fn require<T>(&mut self, name: &str, given: &Given<T>, purpose: Purpose) {
        let missing = match given {
            Given::Absent => purpose == Purpose::Creation,
            Given::Null => true,
            Given::Wrong | Given::Value(_) => false,
        };
        if missing {
            self.refuse::<T>(name, REQUIRED);
        }
    }
}

/// The error text for a string that is not a timestamp.
pub const NOT_AN_INSTANT: &str = "Must be an ISO 8601 timestamp such as 2030-01-31T09:00:00Z";
