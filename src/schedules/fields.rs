//! Typed access to the fields of an object; what is wrong is noted under the field's name.

use std::fmt::Display;
use std::str::FromStr;

use super::FieldErrors;
use super::json::{Json, Object};
use crate::domain::Timestamp;
use crate::domain::field_errors::{REQUIRED, choices};

/// Which fields there must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// All that have no default.
    Creation,
    /// None; but those that have no default cannot be cleared.
    Change,
}

/// What a user gave for a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Given<T> {
    /// Nothing.
    Absent,
    /// `null`: the default.
    Null,
    /// Something that is not allowed; it has been noted.
    Wrong,
    /// A value that has been checked.
    Value(T),
}

impl<T> Given<T> {
    /// Replaces a value by what `check` makes of it.
    pub(super) fn and_then<U>(self, check: impl FnOnce(T) -> Given<U>) -> Given<U> {
        match self {
            Self::Absent => Given::Absent,
            Self::Null => Given::Null,
            Self::Wrong => Given::Wrong,
            Self::Value(value) => check(value),
        }
    }

    /// Writes the value, or the default where it was asked for, over `current`.
    pub(super) fn write_over(self, current: &mut T, default: T) {
        match self {
            Self::Value(value) => *current = value,
            Self::Null => *current = default,
            Self::Absent | Self::Wrong => {}
        }
    }

    /// Writes the value, or none where that was asked for, over `current`.
    pub(super) fn write_over_optional(self, current: &mut Option<T>) {
        match self {
            Self::Value(value) => *current = Some(value),
            Self::Null => *current = None,
            Self::Absent | Self::Wrong => {}
        }
    }

    /// The value, where there is one.
    pub(super) fn value(self) -> Option<T> {
        if let Self::Value(value) = self { Some(value) } else { None }
    }
}

/// The fields of an object, and what is wrong with them so far.
pub(super) struct Fields<'a> {
    object: Object,
    prefix: String,
    errors: &'a mut FieldErrors,
}

impl<'a> Fields<'a> {
    /// The fields of `object`; `prefix` stands before their names in errors.
    pub(super) fn new(
        object: Object,
        prefix: impl Into<String>,
        errors: &'a mut FieldErrors,
    ) -> Self {
        Self { object, prefix: prefix.into(), errors }
    }

    /// Notes what is wrong with a field.
    pub(super) fn refuse<T>(&mut self, name: &str, message: impl Into<String>) -> Given<T> {
        self.errors.add(format!("{}{name}", self.prefix), message);
        Given::Wrong
    }

    /// A text.
    pub(super) fn text(&mut self, name: &str) -> Given<String> {
        match self.object.take(name) {
            None => Given::Absent,
            Some(Json::Null) => Given::Null,
            Some(Json::Text(text)) => Given::Value(text),
            Some(_) => self.refuse(name, "Must be a string"),
        }
    }

    /// A switch.
    pub(super) fn flag(&mut self, name: &str) -> Given<bool> {
        match self.object.take(name) {
            None => Given::Absent,
            Some(Json::Null) => Given::Null,
            Some(Json::Bool(flag)) => Given::Value(flag),
            Some(_) => self.refuse(name, "Must be a boolean"),
        }
    }

    /// An integer, moved to the nearest that is allowed.
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

    /// One of a few names.
    pub(super) fn one_of<T>(&mut self, name: &str, all: &[T]) -> Given<T>
    where
        T: Copy + Display + FromStr,
    {
        self.text(name).and_then(|text| match text.parse() {
            Ok(value) => Given::Value(value),
            Err(_) => self.refuse(name, choices(all)),
        })
    }

    /// One of a few names, or an empty text for the default.
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

    /// An instant.
    pub(super) fn instant(&mut self, name: &str) -> Given<Timestamp> {
        self.text(name).and_then(|text| match text.parse() {
            Ok(instant) => Given::Value(instant),
            Err(_) => self.refuse(name, NOT_AN_INSTANT),
        })
    }

    /// Notes that a field there must be is missing, or was to be cleared.
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

/// What is said of a text that is no instant.
pub const NOT_AN_INSTANT: &str = "Must be an ISO 8601 timestamp such as 2030-01-31T09:00:00Z";
