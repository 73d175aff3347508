//! Hands the statements that both databases share over to the writer and the readers.

use std::sync::Arc;

use sqlx::{Connection as _, SqliteConnection};

use super::readers::Readers;
use super::writer::SqliteWriter;
use crate::store::Result;
use crate::store::sql::access::{Access, AdapterShared, Database, UnitOfWork};
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::fault::SqlResult;
use crate::store::sqlite::{SqliteStore, failed_in};

/// The connections to the file: one that writes, and a few that read.
#[derive(Clone)]
pub(in crate::store) struct SqliteConnections {
    pub(in crate::store::sqlite) writer: SqliteWriter,
    pub(in crate::store::sqlite) readers: Arc<Readers>,
}

impl Database for SqliteStore {
    type Access = SqliteConnections;

    fn api(&self) -> &SqliteConnections {
        &self.connections
    }

    fn shared(&self) -> &AdapterShared {
        &self.shared
    }
}

impl Access for SqliteConnections {
    const DIALECT: Dialect = Dialect::Sqlite;

    async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl UnitOfWork<T>,
    ) -> Result<T> {
        let mut reader = self.readers.take().await.map_err(failed_in(operation))?;
        let outcome = work(&mut Connection::from(&mut *reader)).await;
        reader.done(outcome).map_err(failed_in(operation))
    }

    async fn snapshot<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl UnitOfWork<T>,
    ) -> Result<T> {
        let mut reader = self.readers.take().await.map_err(failed_in(operation))?;
        let outcome = on_snapshot(&mut reader, &work).await;
        reader.done(outcome).map_err(failed_in(operation))
    }

    async fn batch<T: Send + 'static>(
        &self,
        operation: &'static str,
        rows: usize,
        work: impl UnitOfWork<T>,
    ) -> Result<T> {
        let written = self.writer.write(operation, rows, move |connection| {
            Box::pin(async move { work(&mut Connection::from(connection)).await })
        });
        written.await
    }
}

async fn on_snapshot<T>(reader: &mut SqliteConnection, work: &impl UnitOfWork<T>) -> SqlResult<T> {
    let mut snapshot = reader.begin().await?;
    work(&mut Connection::from(&mut *snapshot)).await
}
