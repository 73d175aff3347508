//! A strict JSON reader for user input.
//!
//! The whole text is checked first. Malformed are: nesting of 128 levels, numbers beyond
//! the range of a double, text that is not UTF-8, and anything after the value. Parts are parsed
//! later, when a caller reads them, so nothing is kept of what no request names.
//!
//! serde alone would not do. It skips unknown fields without checking them, and a name that appears
//! twice is an error of its derived code; here the last value counts.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapDeserializer;
use serde::de::{DeserializeOwned, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};
use serde_json::value::RawValue;

/// The reason why a body cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The body is not valid JSON.
    #[error("Invalid JSON body")]
    Malformed,
    /// The body is JSON, but not an object.
    #[error("Must be a JSON object")]
    NotAnObject,
}

/// Parses a JSON object, as [`Json::object`].
pub fn object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    Json::parse(bytes)?.object()
}

/// The text of a valid JSON value.
#[derive(Clone, Copy, Debug)]
pub struct Json<'a>(&'a RawValue);

impl<'a> Json<'a> {
    /// Checks a text as a whole.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, JsonError> {
        let text = std::str::from_utf8(bytes).map_err(|_| JsonError::Malformed)?;
        serde_json::from_str::<Valid>(text).map_err(|_| JsonError::Malformed)?;
        serde_json::from_str(text).map(Self).map_err(|_| JsonError::Malformed)
    }

    /// Returns the text of the value.
    pub fn text(self) -> &'a str {
        self.0.get()
    }

    /// Parses an object. Fields that `T` does not have are ignored. If a name appears twice, the
    /// last value counts.
    pub fn object<T: DeserializeOwned>(self) -> Result<T, JsonError> {
        if !self.0.get().starts_with('{') {
            return Err(JsonError::NotAnObject);
        }
        T::deserialize(LastOfEachName(self.0)).map_err(|_| JsonError::Malformed)
    }

    /// Returns the items of an array: the first `most`, and one more if there are more. Returns
    /// `None` if the value is not an array.
    pub fn items(self, most: usize) -> Option<Vec<Self>> {
        self.0.deserialize_seq(Items { most }).ok()
    }
}

/// Any JSON value, checked to its end and dropped.
struct Valid;

impl<'de> Deserialize<'de> for Valid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Valid {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self, A::Error> {
        while array.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self, A::Error> {
        while object.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

/// A visitor that keeps the first items of an array.
struct Items {
    most: usize,
}

impl<'de> Visitor<'de> for Items {
    type Value = Vec<Json<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while items.len() <= self.most
            && let Some(item) = array.next_element()?
        {
            items.push(Json(item));
        }
        while array.next_element::<IgnoredAny>()?.is_some() {}
        Ok(items)
    }
}

/// An object, of which a struct gets each of its fields at most once.
struct LastOfEachName<'de>(&'de RawValue);

impl<'de> Deserializer<'de> for LastOfEachName<'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        let fields = self.0.deserialize_map(NamedFields(names))?;
        visitor.visit_map(MapDeserializer::new(fields.into_iter()))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// A visitor that keeps the fields of these names.
struct NamedFields(&'static [&'static str]);

impl<'de> Visitor<'de> for NamedFields {
    type Value = BTreeMap<&'static str, &'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some((name, value)) = object.next_entry::<String, _>()? {
            if let Some(known) = self.0.iter().find(|known| **known == name) {
                fields.insert(*known, value);
            }
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::request_body::Field;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Request {
        #[serde(default)]
        a: Field<i64>,
        #[serde(default)]
        b: Field<String>,
    }

    #[test]
    fn known_fields_are_kept_and_the_last_of_equal_names_counts() {
        let body = br#" {"a": 1, "x": [{"a": 9}], "\u0062": "t", "a": null, "A": 3} "#;
        let read = Request { a: Field::Null, b: Field::Value("t".into()) };
        assert_eq!(object(body), Ok(read));
        assert_eq!(object(b"{}"), Ok(Request { a: Field::Absent, b: Field::Absent }));
    }

    #[test]
    fn only_the_first_items_are_kept() {
        let items = |text: &'static str| Json::parse(text.as_bytes()).expect("valid").items(2);
        let kept = items(r#"[{"a": 1}, 2, {"a": 3}, 4]"#).expect("an array");
        assert_eq!(kept.len(), 3);
        let first = Request { a: Field::Value(1), b: Field::Absent };
        assert_eq!(kept[0].object(), Ok(first));
        assert_eq!(kept[1].object::<Request>(), Err(JsonError::NotAnObject));
        assert_eq!(items("[]").expect("an array").len(), 0);
        for other in ["{}", "null", "1", "\"a\""] {
            assert!(items(other).is_none(), "{other}");
        }
    }

    #[test]
    fn hostile_bodies_are_malformed() {
        let deep = format!(r#"{{"x": {}1{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
        let bodies: [&[u8]; 14] = [
            b"",
            b" ",
            b"{",
            b"[1, 2",
            b"{\"a\": 1}x",
            b"{\"a\": 1} {}",
            b"\xef\xbb\xbf{}",
            b"{\"a\": \"\xff\"}",
            b"{\"\xff\": 1}",
            b"{\"x\": 1e400}",
            b"{\"a\": 1e400, \"a\": 1}",
            b"{\"x\": \"\\ud800\"}",
            b"{a: 1}",
            deep.as_bytes(),
        ];
        for body in bodies {
            let shown = String::from_utf8_lossy(&body[..body.len().min(20)]);
            assert_eq!(object::<Request>(body), Err(JsonError::Malformed), "{shown}");
        }
        for body in ["[]", "null", "1", "\"a\"", "true", "[null, null]"] {
            let read = object::<Request>(body.as_bytes());
            assert_eq!(read, Err(JsonError::NotAnObject), "{body}");
        }
    }

    #[test]
    fn values_may_be_nested_127_levels_deep() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let read = |levels: usize| object(format!(r#"{{"a": {}}}"#, nested(levels)).as_bytes());
        let a = Field::Wrong("Must be an integer".into());
        assert_eq!(read(126), Ok(Request { a, b: Field::Absent }));
        assert_eq!(read(127), Err(JsonError::Malformed));
    }
}
