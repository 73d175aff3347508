//! The hand-over of the shared statements to the writer and the readers.

use std::sync::Arc;

use sqlx::{ConnectOptions, Connection as _, SqliteConnection};

use super::open::reading;
use super::readers::Readers;
use super::writer::Writer;
use super::{Settings, SqliteStore, failed_in};
use crate::domain::AccountId;
use crate::store::damage::Damage;
use crate::store::sql::access::{Access, Database, Work};
use crate::store::sql::connection::Connection;
use crate::store::sql::fault::Outcome;
use crate::store::sql::secrets::proofs;
use crate::store::vault::Vault;
use crate::store::{KeyProof, Result};

/// The connections to the file: one that writes, and a few that read.
#[derive(Clone)]
pub(in crate::store) struct Connections {
    pub(super) writer: Writer,
    pub(super) readers: Arc<Readers>,
}

impl Database for SqliteStore {
    type Access = Connections;

    fn api(&self) -> &Connections {
        &self.connections
    }

    fn scheduler(&self) -> &Connections {
        &self.connections
    }

    fn vault(&self) -> &Vault {
        &self.vault
    }

    fn damage(&self) -> &Arc<Damage> {
        &self.damage
    }

    /// The transaction that changed the account has done so: writers take turns.
    async fn fence_plan(&self, _: &'static str, _: AccountId) -> Result<()> {
        Ok(())
    }

    async fn fence_suspension(&self, _: &'static str, _: AccountId) -> Result<()> {
        Ok(())
    }

    async fn fence_deleted(&self, _: AccountId) -> Result<()> {
        Ok(())
    }
}

impl Access for Connections {
    async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl Work<T>,
    ) -> Result<T> {
        let mut reader = self.readers.take().await.map_err(failed_in(operation))?;
        let outcome = work(&mut Connection::from(&mut *reader)).await;
        reader.done(outcome).map_err(failed_in(operation))
    }

    async fn snapshot<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl Work<T>,
    ) -> Result<T> {
        let mut reader = self.readers.take().await.map_err(failed_in(operation))?;
        let outcome = on_snapshot(&mut reader, &work).await;
        reader.done(outcome).map_err(failed_in(operation))
    }

    async fn patient_read<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl Work<T>,
    ) -> Result<T> {
        self.read(operation, work).await
    }

    async fn statement<T: Send + 'static>(
        &self,
        operation: &'static str,
        rows: usize,
        work: impl Work<T>,
    ) -> Result<T> {
        self.batch(operation, rows, work).await
    }

    async fn batch<T: Send + 'static>(
        &self,
        operation: &'static str,
        rows: usize,
        work: impl Work<T>,
    ) -> Result<T> {
        let written = self.writer.write(operation, rows, move |connection| {
            Box::pin(async move { work(&mut Connection::from(connection)).await })
        });
        written.await
    }
}

async fn on_snapshot<T>(reader: &mut SqliteConnection, work: &impl Work<T>) -> Outcome<T> {
    let mut snapshot = reader.begin().await?;
    work(&mut Connection::from(&mut *snapshot)).await
}

impl SqliteStore {
    /// The keys that secrets of a file may be sealed with. Makes no file.
    ///
    /// # Errors
    /// If there is a file that cannot be read.
    pub async fn stored_keys(settings: &Settings) -> Result<Vec<KeyProof>> {
        let read = async {
            if !settings.path.is_file() {
                return Ok(Vec::new());
            }
            let mut connection = reading(settings).connect().await?;
            let tables: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'secret_keys'",
            )
            .fetch_one(&mut connection)
            .await?;
            match tables {
                0 => Ok(Vec::new()),
                _ => proofs(&mut Connection::from(&mut connection)).await,
            }
        };
        read.await.map_err(failed_in("stored_keys"))
    }
}
