//! API keys: `pnc_`, the key's id, its secret and a checksum, in base 62.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::names::names;
use super::{KeyId, Timestamp};

names! {
    /// The permissions of a key.
    Scope {
        /// Read only.
        Read = "read",
        /// Read and change.
        Write = "write",
    }
}

/// The maximum number of an account's keys that work at the same time.
pub const MAX_KEYS: u64 = 10;

const PREFIX: &str = "pnc_";
/// 62^22 > 2^128: enough letters for 16 bytes.
const ID_LETTERS: usize = 22;
/// 28 letters of 62 are 166 random bits; the contract requires 160.
const SECRET_LETTERS: usize = 28;
/// 62^6 > 2^32: enough letters for a CRC-32.
const CHECKSUM_LETTERS: usize = 6;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A well-formed API key. Only the store can tell if it is valid.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey {
    text: String,
    id: KeyId,
}

/// The error for a text that is not an API key. It is detected without a store lookup.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not an API key")]
pub struct InvalidKey;

/// The hash of a key, as stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyDigest(pub [u8; 32]);

impl KeyDigest {
    /// Compares two digests in constant time.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl ApiKey {
    /// Returns a key with this id and a secret of 28 letters (166 bits) drawn from `random`.
    pub fn new(id: KeyId, mut random: impl FnMut(&mut [u8])) -> Self {
        let mut text = String::from(PREFIX);
        push_base62(&mut text, u128::from_be_bytes(id.to_bytes()), ID_LETTERS);
        let mut byte = [0];
        let mut letters = 0;
        while letters < SECRET_LETTERS {
            random(&mut byte);
            // 248 is the largest multiple of 62 in a byte. Larger values would make some letters
            // more frequent than others.
            if byte[0] < 248 {
                text.push(char::from(ALPHABET[usize::from(byte[0] % 62)]));
                letters += 1;
            }
        }
        let checksum = crc32fast::hash(text.as_bytes());
        push_base62(&mut text, u128::from(checksum), CHECKSUM_LETTERS);
        Self { text, id }
    }

    /// Returns the id within the key; it is not secret.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// Returns the hash for the store. A plain hash is enough: the secret is random, not chosen by
    /// a person.
    pub fn digest(&self) -> KeyDigest {
        KeyDigest(Sha256::digest(self.text.as_bytes()).into())
    }

    /// Returns the whole key, to be shown once.
    pub fn reveal(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({}, secret hidden)", self.id)
    }
}

impl FromStr for ApiKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        let rest = text.strip_prefix(PREFIX).ok_or(InvalidKey)?;
        if rest.len() != ID_LETTERS + SECRET_LETTERS + CHECKSUM_LETTERS || !rest.is_ascii() {
            return Err(InvalidKey);
        }
        let id = parse_base62(&rest[..ID_LETTERS]).ok_or(InvalidKey)?;
        let (checked, checksum) = text.split_at(text.len() - CHECKSUM_LETTERS);
        let checksum = parse_base62(checksum).ok_or(InvalidKey)?;
        if checksum != u128::from(crc32fast::hash(checked.as_bytes())) {
            return Err(InvalidKey);
        }
        Ok(Self { text: text.to_owned(), id: KeyId::from_bytes(id.to_be_bytes()) })
    }
}

fn push_base62(text: &mut String, mut value: u128, letters: usize) {
    let mut reversed = Vec::with_capacity(letters);
    for _ in 0..letters {
        let digit = usize::try_from(value % 62).expect("a remainder is below its divisor");
        reversed.push(char::from(ALPHABET[digit]));
        value /= 62;
    }
    text.extend(reversed.into_iter().rev());
}

fn parse_base62(letters: &str) -> Option<u128> {
    letters.bytes().try_fold(0_u128, |value, letter| {
        let digit = ALPHABET.iter().position(|known| *known == letter)?;
        value.checked_mul(62)?.checked_add(u128::try_from(digit).ok()?)
    })
}

/// A key as listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// The key's id.
    pub id: KeyId,
    /// The name that its owner chose.
    pub name: String,
    /// The permissions.
    pub scope: Scope,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The actor that created it, as in the audit log; unknown for old keys.
    pub created_by: Option<String>,
    /// The time at which it expires.
    pub expires_at: Option<Timestamp>,
    /// The time at which it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// The time of its last use, to within about a minute.
    pub last_used_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Random;

    fn key() -> ApiKey {
        let random = Random::seeded(3);
        let id = KeyId::new(Timestamp::from_millis(1_700_000_000_000), random.bits());
        ApiKey::new(id, |bytes| random.fill(bytes))
    }

    #[test]
    fn a_key_reads_back_with_its_id() {
        let key = key();
        let read: ApiKey = key.reveal().parse().expect("well-formed");
        assert_eq!(read.id(), key.id());
        assert!(read.digest().matches(&key.digest()));
        assert!(!format!("{key:?}").contains(&key.reveal()[10..]));
    }

    #[test]
    fn every_single_typo_is_refused() {
        let text = key().reveal().to_owned();
        for at in 0..text.len() {
            let mut typo = text.clone().into_bytes();
            typo[at] = if typo[at] == b'x' { b'y' } else { b'x' };
            let typo = String::from_utf8(typo).expect("ascii");
            assert_eq!(typo.parse::<ApiKey>(), Err(InvalidKey), "at {at}");
        }
        for text in ["", "pnc_", " ", "pnc_é", &format!("{text} "), &text[..text.len() - 1]] {
            assert_eq!(text.parse::<ApiKey>(), Err(InvalidKey), "{text:?}");
        }
    }
}
