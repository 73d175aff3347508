//! Hands the statements that both databases share over to the writer and the readers.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use sqlx::{Connection as _, SqliteConnection};

use super::readers::Readers;
use super::writer::SqliteWriter;
use crate::store::sql::connection::access::{Access, AdapterShared, Database, WorkScope};
use crate::store::sql::connection::work::ErasedWork;
use crate::store::sql::connection::{Connection, Dialect};
use crate::store::sql::error::SqlResult;
use crate::store::sqlite::SqliteStore;

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

    fn run(&self, scope: WorkScope, rows: usize, work: ErasedWork) -> BoxFuture<'_, SqlResult<()>> {
        Box::pin(self.run_work(scope, rows, work))
    }
}

impl SqliteConnections {
    async fn run_work(&self, scope: WorkScope, rows: usize, work: ErasedWork) -> SqlResult<()> {
        match scope {
            WorkScope::Read | WorkScope::LongRead => {
                let mut reader = self.readers.take().await?;
                let outcome = work(&mut Connection::from(&mut *reader)).await;
                reader.done(outcome)
            }
            WorkScope::Snapshot => {
                let mut reader = self.readers.take().await?;
                let outcome = on_snapshot(&mut reader, &work).await;
                reader.done(outcome)
            }
            WorkScope::Statement | WorkScope::Transaction | WorkScope::BriefLockTransaction => {
                let written = self.writer.write(rows, move |connection| {
                    Box::pin(async move { work(&mut Connection::from(connection)).await })
                });
                written.await
            }
        }
    }
}

async fn on_snapshot(reader: &mut SqliteConnection, work: &ErasedWork) -> SqlResult<()> {
    let mut snapshot = reader.begin().await?;
    work(&mut Connection::from(&mut *snapshot)).await
}
