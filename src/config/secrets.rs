//! The keys by which secrets are encrypted at rest.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::reader::{Parsed, Raw, Reader, text};

const KEY_BYTES: usize = 32;
const LONGEST_ID: usize = 32;

/// A key and the id by which encrypted values name it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretsKey {
    /// At most 32 letters, digits, `-` and `_`.
    pub id: String,
    /// The key itself.
    pub key: [u8; KEY_BYTES],
}

impl fmt::Debug for SecretsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretsKey({})", self.id)
    }
}

/// The keys, the one to write with first; none if none are given.
pub(super) fn read(reader: &mut Reader) -> Vec<SecretsKey> {
    let given = reader.read("secrets.keys", |raw| keys(&text(raw)?));
    let in_file = reader.read("secrets.keys_file", keys_of_file);
    if !given.is_empty() && !in_file.is_empty() {
        reader.mistake("secrets.keys_file", "cannot be set beside secrets.keys: keep one of them");
    }
    if given.is_empty() { in_file } else { given }
}

fn keys_of_file(raw: &Raw) -> Parsed<Vec<SecretsKey>> {
    let path = text(raw)?;
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let content = std::fs::read_to_string(&path);
    let content = content.map_err(|error| format!("the file cannot be read: {error}"))?;
    let found = keys(&content).map_err(|why| format!("what is in the file {why}"))?;
    if found.is_empty() { Err("there is no key in the file".to_owned()) } else { Ok(found) }
}

/// Keys separated by commas or line ends. What is wrong is told without quoting any of it.
fn keys(list: &str) -> Parsed<Vec<SecretsKey>> {
    let items = list.split([',', '\n']).map(str::trim).filter(|item| !item.is_empty());
    let mut found: Vec<SecretsKey> = Vec::new();
    for (place, item) in items.enumerate() {
        let place = place + 1;
        let key =
            item.split_once(':').and_then(|(id, key)| secrets_key(id, key)).ok_or_else(|| {
                format!(
                    "must be id:base64,… with {KEY_BYTES} bytes in each base64; key {place} is not"
                )
            })?;
        if found.iter().any(|other| other.id == key.id) {
            return Err(format!("must give each key an id of its own; key {place} repeats one"));
        }
        found.push(key);
    }
    Ok(found)
}

fn secrets_key(id: &str, key: &str) -> Option<SecretsKey> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_id = !id.is_empty() && id.len() <= LONGEST_ID && id.bytes().all(is_plain);
    let key = STANDARD.decode(key).ok()?.try_into().ok()?;
    is_id.then(|| SecretsKey { id: id.to_owned(), key })
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    #[test]
    fn the_first_key_stays_first() {
        let found = keys(&format!("2027:{A}, old_1:{A}\n")).expect("two keys");
        assert_eq!(found.iter().map(|key| key.id.as_str()).collect::<Vec<_>>(), ["2027", "old_1"]);
        assert_eq!(found[0].key[..4], [0, 1, 2, 3]);
        assert_eq!(format!("{:?}", found[0]), "SecretsKey(2027)");
        assert_eq!(keys(" ").expect("none"), []);
    }

    #[test]
    fn what_is_wrong_is_not_quoted() {
        for wrong in [A, "a:c2VjcmV0", &format!("a b:{A}"), &format!(":{A}"), "a:%", "a:"] {
            let why = keys(&format!("ok:{A},{wrong}")).expect_err(wrong);
            assert!(why.ends_with("key 2 is not") && !why.contains(A), "{why}");
        }
        let why = keys(&format!("a:{A},a:{A}")).expect_err("twice");
        assert_eq!(why, "must give each key an id of its own; key 2 repeats one");
    }
}
