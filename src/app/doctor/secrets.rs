//! Checks that the encryption keys for secrets exist and match the stored secrets.

use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;

use crate::app::encryption_keys;
use crate::config::{Config, OTHERS, StoreChoice, others_can_read};
use crate::domain::finding::Finding;
use crate::domain::secret_key::SecretKey;
use crate::runtime::Random;
use crate::store::SecretCipher;
use crate::store::postgres::PostgresStore;
use crate::store::sqlite::SqliteStore;

/// The timeout for reading the keys of a store.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn check_up(config: &Config) -> Vec<Finding> {
    let (keys, mut findings) = configured(config).await;
    if let Some((first, others)) = keys.split_first() {
        let cipher = SecretCipher::new(first, others, Random::system());
        findings.extend(of_store(&config.store, &cipher).await);
    }
    findings
}

/// Checks that these keys decrypt the stored secrets. Returns `None` if the store has no secrets or
/// cannot be read: the check of the store reports that.
async fn of_store(store: &StoreChoice, cipher: &SecretCipher) -> Option<Finding> {
    let stored = async {
        match store {
            StoreChoice::Sqlite(settings) => SqliteStore::stored_keys(settings).await,
            StoreChoice::Postgres(settings) => PostgresStore::stored_keys(settings).await,
        }
    };
    let stored = timeout(TIMEOUT, stored).await.ok()?.ok()?;
    let checked = cipher.check(&stored);
    let ids: Vec<_> = stored.iter().map(|proof| proof.id.as_str()).collect();
    match checked {
        Err(why) => Some(Finding::failure(format!("the store cannot be used: {why}"))),
        Ok(()) if ids.is_empty() => None,
        Ok(()) => {
            Some(Finding::good(format!("stored secrets can be decrypted ({})", ids.join(", "))))
        }
    }
}

/// Returns the available keys, and the findings about them.
async fn configured(config: &Config) -> (Vec<SecretKey>, Vec<Finding>) {
    if !config.secrets.is_empty() {
        let ids: Vec<_> = config.secrets.iter().map(|key| key.id.as_str()).collect();
        let said = format!("secrets are encrypted with {}", ids.join(", "));
        return (config.secrets.clone(), vec![Finding::good(said)]);
    }
    let none = |finding| (Vec::new(), vec![finding]);
    let StoreChoice::Sqlite(settings) = &config.store else {
        return none(Finding::failure(
            "a cluster needs keys that encrypt secrets: set secrets.keys_file; `punctual \
             secrets generate` prints a new key",
        ));
    };
    let path = encryption_keys::file_beside(&settings.path);
    if path.exists() {
        return of_file(&path);
    }
    let shown = path.display();
    none(match SqliteStore::stored_keys(settings).await {
        Ok(stored) if stored.is_empty() => {
            Finding::good(format!("the first start creates {shown}; keep a copy of it"))
        }
        Ok(_) => Finding::failure(format!(
            "secrets are encrypted with the key in {shown}, which is gone: restore the file"
        )),
        Err(error) => Finding::failure(error.to_string()),
    })
}

fn of_file(path: &Path) -> (Vec<SecretKey>, Vec<Finding>) {
    let shown = path.display();
    let finding = match encryption_keys::read(path) {
        Err(error) => return (Vec::new(), vec![Finding::failure(error.to_string())]),
        Ok(found) if others_can_read(path) => {
            (found, Finding::warning(format!("the key file {shown} {OTHERS}")))
        }
        Ok(found) => {
            (found, Finding::good(format!("secrets are encrypted with the key in {shown}")))
        }
    };
    (finding.0, vec![finding.1])
}
