//! Hands the statements that both databases share over to the writer and the readers.

use std::sync::Arc;

use sqlx::{Connection as _, SqliteConnection};

use super::readers::Readers;
use super::writer::Writer;
use crate::store::Result;
use crate::store::corrupt_rows::CorruptRows;
use crate::store::encryption::encrypted_fields::EncryptedFields;
use crate::store::sql::access::{Access, Database, Work};
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::fault::Outcome;
use crate::store::sql::months::Months;
use crate::store::sqlite::{SqliteStore, failed_in};

/// The connections to the file: one that writes, and a few that read.
#[derive(Clone)]
pub(in crate::store) struct Connections {
    pub(in super::super) writer: Writer,
    pub(in super::super) readers: Arc<Readers>,
}

impl Database for SqliteStore {
    type Access = Connections;
    const DIALECT: Dialect = Dialect::Sqlite;

    fn api(&self) -> &Connections {
        &self.connections
    }

    fn months(&self) -> &Months {
        &self.months
    }

    fn encrypted_fields(&self) -> &EncryptedFields {
        &self.encrypted_fields
    }

    fn corrupt_rows(&self) -> &Arc<CorruptRows> {
        &self.corrupt_rows
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
