//! A JSON reader for user input: an object of scalars, or an array of such objects.
//!
//! The reader keeps only the requested fields. It skips everything else without building it, so a
//! body takes no more memory than its own size. Malformed are: nesting deeper than 128 levels,
//! numbers beyond the range of a double, text that is not UTF-8, and anything after the value. If a
//! name appears twice, the last value counts.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

pub use crate::domain::request_body::JsonError;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// A number without a fraction, saturated to 64 bits.
    Integer(i64),
    /// A number with a fraction.
    Fraction,
    Text(String),
    /// The first items, as many as requested, and the total number of items.
    Array(Vec<Json>, usize),
    Object(Object),
}

/// The requested fields of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object(Vec<(&'static str, Json)>);

impl Object {
    /// Parses an object. Fields other than `names` are ignored.
    pub fn parse(bytes: &[u8], names: &'static [&'static str]) -> Result<Self, JsonError> {
        match parse(bytes, names, 0)? {
            Json::Object(object) => Ok(object),
            _ => Err(JsonError::NotAnObject),
        }
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Json> {
        let place = self.0.iter().position(|(known, _)| *known == name)?;
        Some(self.0.swap_remove(place).1)
    }
}

/// Parses a value. Of an object, it keeps the fields `names`; of an array, it keeps the first
/// `items` items with these fields.
pub(super) fn parse(
    bytes: &[u8],
    names: &'static [&'static str],
    items: usize,
) -> Result<Json, JsonError> {
    let text = std::str::from_utf8(bytes).map_err(|_| JsonError::Malformed)?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Walk { names, items }.deserialize(&mut deserializer);
    let value = value.map_err(|_| JsonError::Malformed)?;
    deserializer.end().map_err(|_| JsonError::Malformed)?;
    Ok(value)
}

/// A visitor that reads a value and keeps the requested parts of it.
#[derive(Clone, Copy, Default)]
struct Walk {
    names: &'static [&'static str],
    items: usize,
}

impl<'de> DeserializeSeed<'de> for Walk {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Integer(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Json, E> {
        if value.fract() != 0.0 {
            return Ok(Json::Fraction);
        }
        #[expect(clippy::cast_possible_truncation, reason = "the cast saturates, as wanted")]
        Ok(Json::Integer(value as i64))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Json, A::Error> {
        let (mut kept, mut count) = (Vec::new(), 0);
        loop {
            let keep = count < self.items;
            let names = if keep { self.names } else { &[] };
            let Some(item) = array.next_element_seed(Walk { names, items: 0 })? else { break };
            count += 1;
            if keep {
                kept.push(item);
            }
        }
        Ok(Json::Array(kept, count))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Json, A::Error> {
        let mut fields: Vec<(&'static str, Json)> = Vec::new();
        while let Some(name) = object.next_key_seed(Name(self.names))? {
            let value = object.next_value_seed(Walk::default())?;
            if let Some(name) = name {
                fields.retain(|(known, _)| *known != name);
                fields.push((name, value));
            }
        }
        Ok(Json::Object(Object(fields)))
    }
}

/// A visitor that reads a field's name and returns it if it is one of these, else `None`.
struct Name(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<&'static str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<&'static str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().copied().find(|known| *known == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[&str] = &["a", "b"];

    #[test]
    fn fields_asked_for_are_kept_and_the_last_of_equal_names_counts() {
        let body = br#" {"a": 1, "x": [{"a": 9}], "b": "t", "a": null, "A": 3} "#;
        let mut object = Object::parse(body, NAMES).expect("an object");
        assert_eq!(object.take("a"), Some(Json::Null));
        assert_eq!(object.take("a"), None);
        assert_eq!(object.take("b"), Some(Json::Text("t".into())));
    }

    #[test]
    fn numbers_are_integers_whatever_their_spelling() {
        for (text, value) in [
            ("2", Json::Integer(2)),
            ("-0", Json::Integer(0)),
            ("2.0", Json::Integer(2)),
            ("1e2", Json::Integer(100)),
            ("99999999999999999999", Json::Integer(i64::MAX)),
            ("-1e300", Json::Integer(i64::MIN)),
            ("2.5", Json::Fraction),
        ] {
            assert_eq!(parse(text.as_bytes(), &[], 0), Ok(value), "{text}");
        }
    }

    #[test]
    fn only_the_first_items_are_kept() {
        let parsed = parse(br#"[{"a": 1}, 2, {"a": 3}]"#, NAMES, 2);
        let first = Json::Object(Object(vec![("a", Json::Integer(1))]));
        assert_eq!(parsed, Ok(Json::Array(vec![first, Json::Integer(2)], 3)));
    }

    #[test]
    fn hostile_bodies_are_malformed() {
        let deep = format!(r#"{{"x": {}1{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
        let bodies: [&[u8]; 12] = [
            b"",
            b" ",
            b"{",
            b"{\"a\": 1}x",
            b"{\"a\": 1} {}",
            b"\xef\xbb\xbf{}",
            b"{\"a\": \"\xff\"}",
            b"{\"\xff\": 1}",
            b"{\"x\": 1e400}",
            b"{\"x\": \"\\ud800\"}",
            b"{a: 1}",
            deep.as_bytes(),
        ];
        for body in bodies {
            let shown = String::from_utf8_lossy(&body[..body.len().min(20)]);
            assert_eq!(Object::parse(body, NAMES), Err(JsonError::Malformed), "{shown}");
        }
        for body in ["[]", "null", "1", "\"a\"", "true"] {
            let read = Object::parse(body.as_bytes(), NAMES);
            assert_eq!(read, Err(JsonError::NotAnObject), "{body}");
        }
    }
}
