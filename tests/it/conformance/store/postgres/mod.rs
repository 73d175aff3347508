//! What only the adapter for PostgreSQL has: sessions, locks, partitions, versions, faults.

mod database;
mod timing;

use std::sync::Arc;

use punctual::store::SharedStore;

use super::world::Home;
use database::Database;

/// A migrated store in a database of its own.
pub async fn open() -> (SharedStore, Home) {
    let database = Database::migrated().await;
    (Arc::new(database.open()), Box::new(database))
}
