//! Health, and the removal of old history.

pub(super) mod prune;

use super::SqliteStore;
use crate::domain::Timestamp;
use crate::store::sql::connection::access::{Access, call};
use crate::store::sql::upkeep::DatabaseUpkeep;
use crate::store::{PrunedRows, Result};
use prune::prune;

impl DatabaseUpkeep for SqliteStore {
    async fn check_writable(&self) -> Result<()> {
        // Takes the write lock and does nothing else, which shows that the file can be written to.
        self.connections.transaction("ping", |_| Box::pin(async { Ok(()) })).await
    }

    async fn own_time(&self) -> Result<Option<Timestamp>> {
        Ok(None)
    }

    async fn make_partitions(&self, _: Timestamp) -> Result<()> {
        Ok(())
    }

    async fn prune_history(&self, before: Timestamp, limit: u32) -> Result<PrunedRows> {
        self.connections.batch("prune", limit as usize, call(prune, (before, limit))).await
    }
}
