//! Tests of the PostgreSQL adapter only: sessions, locks, partitions, versions, faults.

mod alerts;
mod audit;
mod copying;
mod definition_cache;
mod encrypted_secrets;
mod ends;
mod faults;
mod held;
mod hours;
mod interference;
mod locks;
mod lookups;
mod partitions;
mod tls;
mod triggers;
mod versions;

use std::sync::Arc;

use punctual::domain::Timestamp;
use punctual::store::{SharedStore, StoreErrorKind, UpkeepStore};

use super::world::{Home, World};
use crate::harness::database::Database;

/// Opens a migrated store in its own database.
pub async fn open() -> (SharedStore, Home) {
    let database = Database::migrated().await;
    (Arc::new(database.open()), Box::new(database))
}

/// Creates a world on a database that the test can also access directly.
async fn world(database: &Database) -> World {
    World::new((Arc::new(database.open()), Box::new(()))).await
}

/// Makes the days of history, as upkeep does at `now`. On a busy machine a transaction can meet the
/// time limit of locks or of idle transactions. Upkeep tries again then, too.
async fn prepare(store: &dyn UpkeepStore, now: Timestamp) {
    loop {
        match store.prepare(now).await {
            Err(error)
                if matches!(error.kind(), StoreErrorKind::Locked | StoreErrorKind::Unavailable) => {
            }
            prepared => return prepared.expect("prepare"),
        }
    }
}
