//! The keys that encrypt secrets: the configured ones or, for a SQLite store, those in a file
//! beside it. The first start creates this file together with the store.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::StartError;
use crate::config::{Config, OTHERS, StoreChoice, others_can_read};
use crate::domain::secret_key::{KEY_BYTES, SecretKey};
use crate::runtime::Random;
use crate::store::SecretCipher;
use crate::store::sqlite::SqliteStore;

/// The name of the key file.
const FILE: &str = "secrets.key";
const HEADER: &str = "\
# Punctual encrypts secrets with this key: the headers and the bodies of requests.
# Without it they are lost. Keep a copy of it, but not together with the backups of the store.
";

/// Generates a new key with a random id.
pub fn new_key(random: &Random) -> SecretKey {
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    random.fill(&mut *key);
    SecretKey { id: format!("s-{:08x}", random.bits() >> 96), key }
}

/// Returns the cipher that encrypts the secrets of the configured store. Creates the key file of a
/// new SQLite store.
pub(super) async fn cipher(config: &Config, random: &Random) -> Result<SecretCipher, StartError> {
    let found = match &config.store {
        _ if !config.secrets.is_empty() => config.secrets.clone(),
        StoreChoice::Postgres(_) => return Err(StartError::NoKeys),
        StoreChoice::Sqlite(settings) => {
            let path = file_beside(&settings.path);
            if !path.exists() {
                if !SqliteStore::stored_keys(settings).await?.is_empty() {
                    return Err(StartError::KeysLost { store: settings.path.clone(), path });
                }
                make(&path, random).map_err(|error| unusable(&path, reason(&path, &error)))?;
            }
            let found = read(&path)?;
            if others_can_read(&path) {
                tracing::warn!(path = %path.display(), "the key file {OTHERS}");
            }
            found
        }
    };
    let (first, others) = found.split_first().ok_or(StartError::NoKeys)?;
    Ok(SecretCipher::new(first, others, random.clone()))
}

/// Returns the path of the key file that belongs to a store's file.
pub(super) fn file_beside(store: &Path) -> PathBuf {
    store.with_file_name(FILE)
}

fn unusable(path: &Path, reason: String) -> StartError {
    StartError::KeyFile { path: path.to_owned(), reason }
}

fn reason(path: &Path, error: &io::Error) -> String {
    match path.parent() {
        Some(folder) if error.kind() == io::ErrorKind::NotFound => {
            format!("there is no folder {}: create it first", folder.display())
        }
        _ => error.to_string(),
    }
}

/// Reads the keys in a file.
pub(super) fn read(path: &Path) -> Result<Vec<SecretKey>, StartError> {
    let content = std::fs::read_to_string(path).map(Zeroizing::new);
    let content = content.map_err(|error| unusable(path, error.to_string()))?;
    let found =
        SecretKey::list(&content).map_err(|why| unusable(path, format!("its content {why}")))?;
    if found.is_empty() {
        return Err(unusable(path, "it contains no key".to_owned()));
    }
    Ok(found)
}

/// Creates the key file atomically, readable by its owner only. If several processes do this at the
/// same time, the first file stays, and all of them use it.
fn make(path: &Path, random: &Random) -> io::Result<()> {
    let key = new_key(random);
    let draft: PathBuf = path.with_file_name(format!("{FILE}.{:032x}", random.bits()));
    let made = write(&draft, &key).and_then(|()| match std::fs::hard_link(&draft, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    });
    let removed = std::fs::remove_file(&draft);
    made.and(removed)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn write(path: &Path, key: &SecretKey) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(HEADER.as_bytes())?;
    file.write_all(key.reveal().as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}
