//! The keys by which secrets are encrypted at rest.

use super::reader::{Parsed, Raw, Reader, text};
use crate::domain::secret_key::SecretKey;

/// The keys, the one to write with first; none if none are given.
pub(super) fn read(reader: &mut Reader) -> Vec<SecretKey> {
    let given = reader.read("secrets.keys", |raw| SecretKey::list(&text(raw)?));
    let in_file = reader.read("secrets.keys_file", keys_of_file);
    if !given.is_empty() && !in_file.is_empty() {
        reader.mistake("secrets.keys_file", "cannot be set beside secrets.keys: keep one of them");
    }
    if given.is_empty() { in_file } else { given }
}

fn keys_of_file(raw: &Raw) -> Parsed<Vec<SecretKey>> {
    let path = text(raw)?;
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let content = std::fs::read_to_string(&path);
    let content = content.map_err(|error| format!("the file cannot be read: {error}"))?;
    let found = SecretKey::list(&content).map_err(|why| format!("what is in the file {why}"))?;
    if found.is_empty() { Err("there is no key in the file".to_owned()) } else { Ok(found) }
}
