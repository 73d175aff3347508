//! Health, and the removal of old history.

mod copy;
pub(super) mod prune;

use super::SqliteStore;
use crate::domain::Timestamp;
use crate::store::sql::upkeep::Upkept;
use crate::store::{Result, Upkeep};
use prune::prune;

impl Upkept for SqliteStore {
    async fn check_writable(&self) -> Result<()> {
        // Takes the write lock and does nothing else, which shows that the file can be written to.
        self.connections.writer.write("ping", 1, |_| Box::pin(async { Ok(()) })).await
    }

    async fn own_time(&self) -> Result<Option<Timestamp>> {
        Ok(None)
    }

    async fn make_partitions(&self, _: Timestamp) -> Result<()> {
        Ok(())
    }

    async fn prune_history(&self, before: Timestamp, limit: u32) -> Result<Upkeep> {
        self.connections
            .writer
            .write("prune", limit as usize, move |connection| {
                Box::pin(prune(connection, before, limit))
            })
            .await
    }
}
