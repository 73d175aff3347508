//! The keys that encrypt secrets at rest.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::reader::{ParseResult, SettingsReader, SourceValue, text};
use crate::domain::secret_key::SecretKey;

/// Reads the keys. The first one encrypts new secrets. The result is empty if no keys are
/// configured.
pub(super) fn read(reader: &mut SettingsReader) -> Vec<SecretKey> {
    let given = reader.read("secrets.keys", |raw| SecretKey::list(&text(raw)?));
    let in_file = reader.read("secrets.keys_file", keys_of_file);
    if !given.is_empty() && !in_file.is_empty() {
        reader.mistake("secrets.keys_file", "cannot be set beside secrets.keys: keep one of them");
    }
    if let SourceValue::Text(path) = reader.raw("secrets.keys_file")
        && !in_file.is_empty()
        && others_can_read(Path::new(&path))
    {
        reader.warn("secrets.keys_file", OTHERS);
    }
    if given.is_empty() { in_file } else { given }
}

/// The warning about a key file that other users can read.
pub const OTHERS: &str =
    "can be read by every user of this machine: restrict it to its owner (chmod 600)";

/// Returns `true` if every user of this machine can read the file.
pub fn others_can_read(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o004 != 0)
}

fn keys_of_file(raw: &SourceValue) -> ParseResult<Vec<SecretKey>> {
    let path = text(raw)?;
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let content = std::fs::read_to_string(&path);
    let content = content.map_err(|error| format!("the file cannot be read: {error}"))?;
    let found = SecretKey::list(&content).map_err(|why| format!("the file content {why}"))?;
    if found.is_empty() { Err("the file contains no key".to_owned()) } else { Ok(found) }
}
