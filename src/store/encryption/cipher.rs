//! Encrypts ("seals") secrets before they are stored, and decrypts ("opens") them.
//!
//! A sealed value is `sealed:1:KEY_ID:` followed by base64: a random nonce of 24 bytes and the
//! XChaCha20-Poly1305 ciphertext. The key's id, the account, the row and the column are
//! authenticated with it, so a value that was moved to another row or column does not open.
//!
//! The first key seals; every configured key opens. A text that is not sealed was stored before
//! there were keys: it is read as it is, and `punctual secrets rotate` seals it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};

use crate::domain::AccountId;
use crate::domain::secret_key::SecretKey;
use crate::domain::signing::SigningSecret;
use crate::runtime::Random;

/// The prefix of every sealed value, with the version of the format.
const FORM: &str = "sealed:1:";
const NONCE_BYTES: usize = 24;
/// The reason why a sealed value cannot be opened. It contains nothing of the value.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum OpenError {
    /// The value names a key that is not configured.
    #[error("it is encrypted with the key {0:?}, which is not configured")]
    UnknownKey(String),
    /// The value is not what that key sealed in that column.
    #[error(
        "it cannot be decrypted with the key that it names: the value is damaged or belongs to \
         another row, or the key has changed"
    )]
    Forged,
}

/// Seals and opens secrets. Clones share the keys.
#[derive(Clone)]
pub struct SecretCipher {
    ciphers: Arc<HashMap<String, XChaCha20Poly1305>>,
    first: Arc<str>,
    random: Random,
}

impl fmt::Debug for SecretCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretCipher({})", self.first)
    }
}

impl SecretCipher {
    /// Returns a cipher that seals with `first`, and opens with `first` and `others`.
    pub fn new(first: &SecretKey, others: &[SecretKey], random: Random) -> Self {
        let cipher = |key: &SecretKey| (key.id.clone(), XChaCha20Poly1305::new((&*key.key).into()));
        let ciphers = others.iter().chain([first]).map(cipher).collect();
        Self { ciphers: Arc::new(ciphers), first: first.id.as_str().into(), random }
    }

    /// Returns a new secret for signing requests.
    pub(in crate::store) fn signing_secret(&self) -> SigningSecret {
        SigningSecret::new(|bytes| self.random.fill(bytes))
    }

    /// Returns the id of the key that seals.
    pub fn first(&self) -> &str {
        &self.first
    }

    /// Returns `true` if one of the keys has this id.
    pub fn knows(&self, key: &str) -> bool {
        self.ciphers.contains_key(key)
    }

    /// Seals the text of a column of an account's row.
    pub fn seal(&self, account: AccountId, row: &[u8], column: &str, text: &str) -> String {
        let mut bytes = vec![0; NONCE_BYTES];
        self.random.fill(&mut bytes);
        let nonce = XNonce::try_from(bytes.as_slice()).expect("it has that many bytes");
        let aad = associated_data(account, row, column, &self.first);
        let payload = Payload { msg: text.as_bytes(), aad: &aad };
        let cipher = self.ciphers.get(&*self.first).expect("the first key is among them");
        let sealed = cipher.encrypt(&nonce, payload).expect("it is shorter than 256 GiB");
        bytes.extend(sealed);
        let mut value = self.prefix();
        value.reserve(bytes.len() * 4 / 3 + 2);
        STANDARD_NO_PAD.encode_string(bytes, &mut value);
        value
    }

    /// Opens a value that [`seal`](Self::seal) returned for the same row and column.
    ///
    /// # Errors
    /// Returns an error if the key is not configured, or the value is not the sealed one.
    pub fn open(
        &self,
        account: AccountId,
        row: &[u8],
        column: &str,
        stored: &str,
    ) -> Result<String, OpenError> {
        let Some((key, sealed)) = parts(stored) else {
            return Ok(stored.to_owned());
        };
        let cipher = self.ciphers.get(key).ok_or_else(|| OpenError::UnknownKey(key.to_owned()))?;
        let bytes = STANDARD_NO_PAD.decode(sealed).map_err(|_| OpenError::Forged)?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_BYTES).ok_or(OpenError::Forged)?;
        let nonce = XNonce::try_from(nonce).map_err(|_| OpenError::Forged)?;
        let payload = Payload { msg: sealed, aad: &associated_data(account, row, column, key) };
        let text = cipher.decrypt(&nonce, payload).map_err(|_| OpenError::Forged)?;
        String::from_utf8(text).map_err(|_| OpenError::Forged)
    }

    /// Returns the prefix of all values that the first key seals.
    pub(in crate::store) fn prefix(&self) -> String {
        format!("{FORM}{}:", self.first)
    }
}

/// Returns the id of the key and the encoded ciphertext; `None` if the text is not sealed.
fn parts(stored: &str) -> Option<(&str, &str)> {
    stored.strip_prefix(FORM)?.split_once(':')
}

/// Returns the associated data that is authenticated with a value. Each part is preceded by its
/// length, so that no two columns have the same bytes.
fn associated_data(account: AccountId, row: &[u8], column: &str, key: &str) -> Vec<u8> {
    let account = account.to_bytes();
    let parts = [&account, row, column.as_bytes(), key.as_bytes()];
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
    for part in parts {
        bytes.extend((part.len() as u64).to_be_bytes());
        bytes.extend(part);
    }
    bytes
}

/// Returns a cipher for tests of adapters.
#[cfg(test)]
pub(in crate::store) fn cipher() -> SecretCipher {
    let key = SecretKey { id: "test".to_owned(), key: zeroize::Zeroizing::new([7; 32]) };
    SecretCipher::new(&key, &[], Random::seeded(7))
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::domain::secret_key::KEY_BYTES;

    const ACCOUNT: AccountId = AccountId::from_bytes([1; 16]);

    fn key(id: &str, byte: u8) -> SecretKey {
        SecretKey { id: id.to_owned(), key: Zeroizing::new([byte; KEY_BYTES]) }
    }

    fn cipher(keys: &[SecretKey]) -> SecretCipher {
        SecretCipher::new(&keys[0], &keys[1..], Random::seeded(7))
    }

    #[test]
    fn a_sealed_text_opens_in_its_column_only() {
        let cipher = cipher(&[key("2027", 1)]);
        let sealed = cipher.seal(ACCOUNT, b"row", "body", "geheim");
        assert!(sealed.starts_with("sealed:1:2027:"), "{sealed}");
        assert!(!sealed.contains("geheim") && sealed.starts_with(&cipher.prefix()));
        assert_ne!(sealed, cipher.seal(ACCOUNT, b"row", "body", "geheim"), "the nonce is random");
        assert_eq!(cipher.open(ACCOUNT, b"row", "body", &sealed).as_deref(), Ok("geheim"));
        let other = AccountId::from_bytes([2; 16]);
        for (account, row, column) in [
            (other, "row", "body"),
            (ACCOUNT, "wor", "body"),
            (ACCOUNT, "row", "headers"),
            (ACCOUNT, "rowb", "ody"),
        ] {
            let opened = cipher.open(account, row.as_bytes(), column, &sealed);
            assert_eq!(opened, Err(OpenError::Forged), "{row} {column}");
        }
    }

    #[test]
    fn whatever_is_changed_does_not_open() {
        let cipher = cipher(&[key("a", 1), key("b", 1)]);
        let sealed = cipher.seal(ACCOUNT, b"row", "body", "");
        for wrong in [
            sealed.replacen(":a:", ":b:", 1),
            format!("{sealed}AAAA"),
            sealed[..sealed.len() - 4].to_owned(),
            "sealed:1:a:".to_owned(),
            "sealed:1:a:%".to_owned(),
        ] {
            let opened = cipher.open(ACCOUNT, b"row", "body", &wrong);
            assert_eq!(opened, Err(OpenError::Forged), "{wrong}");
        }
    }

    #[test]
    fn every_key_opens_and_the_first_one_seals() {
        let old = cipher(&[key("old", 1)]).seal(ACCOUNT, b"row", "body", "x");
        let both = cipher(&[key("new", 2), key("old", 1)]);
        assert_eq!(both.open(ACCOUNT, b"row", "body", &old).as_deref(), Ok("x"));
        assert!(both.knows("old") && both.first() == "new");
        let new = both.seal(ACCOUNT, b"row", "body", "x");
        assert!(new.starts_with(&both.prefix()) && !old.starts_with(&both.prefix()));
        let opened = cipher(&[key("old", 1)]).open(ACCOUNT, b"row", "body", &new);
        assert_eq!(opened, Err(OpenError::UnknownKey("new".to_owned())));
        let opened = cipher(&[key("old", 3)]).open(ACCOUNT, b"row", "body", &old);
        assert_eq!(opened, Err(OpenError::Forged), "another key of that id");
    }

    #[test]
    fn a_text_from_before_there_were_keys_is_read_as_it_is() {
        let cipher = cipher(&[key("a", 1)]);
        for text in ["", "{\"a\":1}", "sealed", "sealed:1:no end"] {
            assert_eq!(cipher.open(ACCOUNT, b"row", "body", text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn keys_are_not_shown() {
        let key = key("a", 65);
        assert_eq!(format!("{key:?}"), "SecretKey(a)");
        assert_eq!(format!("{:?}", cipher(&[key])), "SecretCipher(a)");
    }
}
