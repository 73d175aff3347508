//! Stores in temporary folders, for tests.

use tempfile::TempDir;

use super::{SqliteSettings, SqliteStore};
use crate::store::encryption::cipher::cipher;

/// Returns an empty store with all migrations, and the folder of its file.
pub(crate) async fn store() -> (SqliteStore, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = SqliteSettings::new(folder.path().join("store.db"));
    let store = SqliteStore::open(&settings, &cipher()).await.expect("open");
    store.migrate().await.expect("migrate");
    (store, folder)
}
