//! Ids of 16 bytes in the JSON of batches.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An id of 16 bytes, as 32 hexadecimal digits in JSON. SQLite reads them with `unhex` and writes
/// them with `hex`; PostgreSQL casts them to `uuid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct Hex(pub(in crate::store) [u8; 16]);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 32];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        serializer.serialize_str(std::str::from_utf8(&text).expect("hexadecimal digits are ASCII"))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(HexVisitor)
    }
}

struct HexVisitor;

impl Visitor<'_> for HexVisitor {
    type Value = Hex;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("32 hexadecimal digits")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Hex, E> {
        let value = u128::from_str_radix(text, 16).map_err(E::custom)?;
        if text.len() == 32 {
            Ok(Hex(value.to_be_bytes()))
        } else {
            Err(E::invalid_length(text.len(), &self))
        }
    }
}
