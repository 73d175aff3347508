//! Keys that encrypt secrets at rest.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// The length of a key in bytes.
pub const KEY_BYTES: usize = 32;
const MAX_ID: usize = 32;

/// A key and its id. An encrypted value contains the id of its key.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey {
    /// At most 32 letters, digits, `-` and `_`.
    pub id: String,
    /// The key itself; wiped from memory when it is dropped.
    pub key: Zeroizing<[u8; KEY_BYTES]>,
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.id)
    }
}

impl SecretKey {
    /// Reads keys separated by commas or line ends; a line that begins with `#` is a comment.
    ///
    /// # Errors
    /// Returns a message that names the fault without quoting any of the text.
    pub fn list(text: &str) -> Result<Vec<Self>, String> {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let items = lines.flat_map(|line| line.split(',')).map(str::trim);
        let mut found: Vec<Self> = Vec::new();
        for (position, item) in (1..).zip(items.filter(|item| !item.is_empty())) {
            let key = item.split_once(':').and_then(|(id, key)| Self::of(id, key));
            let key = key.ok_or_else(|| {
                format!(
                    "must be id:base64,… with {KEY_BYTES} bytes in each base64; key {position} is not"
                )
            })?;
            if found.iter().any(|other| other.id == key.id) {
                return Err(format!("must give each key its own id; key {position} repeats one"));
            }
            found.push(key);
        }
        Ok(found)
    }

    fn of(id: &str, key: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_id = !id.is_empty() && id.len() <= MAX_ID && id.bytes().all(is_plain);
        let bytes = Zeroizing::new(STANDARD.decode(key).ok()?);
        let key = Zeroizing::new(bytes.as_slice().try_into().ok()?);
        is_id.then(|| Self { id: id.to_owned(), key })
    }

    /// Returns the form that [`list`](Self::list) reads: secret.
    pub fn reveal(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{}:{}", self.id, STANDARD.encode(*self.key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    #[test]
    fn the_first_key_stays_first() {
        let text = format!("# new ones first\n2027:{A}, old_1:{A}\n");
        let found = SecretKey::list(&text).expect("two keys");
        assert_eq!(found.iter().map(|key| key.id.as_str()).collect::<Vec<_>>(), ["2027", "old_1"]);
        assert_eq!(found[0].key[..4], [0, 1, 2, 3]);
        assert_eq!(format!("{:?}", found[0]), "SecretKey(2027)");
        assert_eq!(*found[0].reveal(), format!("2027:{A}"));
        assert_eq!(SecretKey::list(" ").expect("none"), []);
    }

    #[test]
    fn a_wrong_key_is_not_quoted() {
        for wrong in [A, "a:c2VjcmV0", &format!("a b:{A}"), &format!(":{A}"), "a:%", "a:"] {
            let why = SecretKey::list(&format!("ok:{A},{wrong}")).expect_err(wrong);
            assert!(why.ends_with("key 2 is not") && !why.contains(A), "{why}");
        }
        let why = SecretKey::list(&format!("a:{A},a:{A}")).expect_err("twice");
        assert_eq!(why, "must give each key its own id; key 2 repeats one");
    }
}
