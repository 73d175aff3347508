//! The keys by which secrets are encrypted at rest.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::reader::{Parsed, Raw, Reader, text};
use crate::domain::secret_key::SecretKey;

/// The keys, the one to write with first; none if none are given.
pub(super) fn read(reader: &mut Reader) -> Vec<SecretKey> {
    let given = reader.read("secrets.keys", |raw| SecretKey::list(&text(raw)?));
    let in_file = reader.read("secrets.keys_file", keys_of_file);
    if !given.is_empty() && !in_file.is_empty() {
        reader.mistake("secrets.keys_file", "cannot be set beside secrets.keys: keep one of them");
    }
    if let Raw::Text(path) = reader.raw("secrets.keys_file")
        && !in_file.is_empty()
        && others_can_read(Path::new(&path))
    {
        reader.warn("secrets.keys_file", OTHERS);
    }
    if given.is_empty() { in_file } else { given }
}

/// What is said of a file of keys that others can read.
pub const OTHERS: &str =
    "can be read by every user of this machine: let nobody but its owner (chmod 600)";

/// Whether everybody on this machine can read a file of keys.
pub fn others_can_read(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o004 != 0)
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
