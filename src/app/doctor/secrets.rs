//! Whether the keys that secrets are encrypted with are there.

use std::path::Path;

use crate::app::keys;
use crate::config::{Config, OTHERS, Store, others_can_read};
use crate::domain::finding::Finding;
use crate::store::sqlite::SqliteStore;

pub(super) async fn check_up(config: &Config) -> Vec<Finding> {
    if !config.secrets.is_empty() {
        let ids: Vec<_> = config.secrets.iter().map(|key| key.id.as_str()).collect();
        return vec![Finding::good(format!("secrets are encrypted with {}", ids.join(", ")))];
    }
    let Store::Sqlite(settings) = &config.store else {
        return vec![Finding::failure(
            "a cluster needs keys to encrypt secrets with: set secrets.keys_file; `punctual secrets \
             generate` makes a key",
        )];
    };
    let path = keys::file_beside(&settings.path);
    if path.exists() {
        return of_file(&path);
    }
    let shown = path.display();
    vec![match SqliteStore::has_keys(settings).await {
        Ok(false) => {
            Finding::good(format!("{shown} is made by the first start; keep a copy of it"))
        }
        Ok(true) => Finding::failure(format!(
            "secrets are encrypted with the key in {shown}, which is gone: give the file back"
        )),
        Err(error) => Finding::failure(error.to_string()),
    }]
}

fn of_file(path: &Path) -> Vec<Finding> {
    let shown = path.display();
    match keys::read(path) {
        Err(error) => vec![Finding::failure(error.to_string())],
        Ok(_) if others_can_read(path) => {
            vec![Finding::warning(format!("the file of the keys, {shown}, {OTHERS}"))]
        }
        Ok(_) => vec![Finding::good(format!("secrets are encrypted with the key in {shown}"))],
    }
}
