//! The connections that read.
//!
//! A read takes one of a few connections out of the pool and puts it back afterwards. A read that
//! fails drops its connection, so that a broken one is not used again. A read that is cancelled
//! puts its connection back: the driver finishes the statement before it starts another one.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::query::QueryAs;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteRow};
use sqlx::{ConnectOptions, FromRow, Sqlite, SqliteConnection};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::runtime::Mutex;
use crate::store::StoreErrorKind;
use crate::store::sql::error::{SqlError, SqlResult};

/// A pool of connections that read.
pub(in crate::store::sqlite) struct Readers {
    options: SqliteConnectOptions,
    timeout: Duration,
    permits: Semaphore,
    idle: Mutex<Vec<SqliteConnection>>,
}

impl Readers {
    /// Creates a pool of at most `connections`, which are opened when they are needed. If all are
    /// in use, a caller waits for at most `timeout`.
    pub(in crate::store::sqlite) fn new(
        options: SqliteConnectOptions,
        connections: u32,
        timeout: Duration,
    ) -> Self {
        let permits = usize::try_from(connections).unwrap_or(usize::MAX).clamp(1, 64);
        let idle = Mutex::new(Vec::with_capacity(permits));
        Self { options, timeout, permits: Semaphore::new(permits), idle }
    }

    /// Takes a connection out of the pool.
    pub(in crate::store::sqlite) async fn take(&self) -> SqlResult<PooledReader<'_>> {
        let unavailable = |why| SqlError::new(StoreErrorKind::Unavailable, why);
        let permit = tokio::time::timeout(self.timeout, self.permits.acquire())
            .await
            .map_err(|_| unavailable("all read connections are in use"))?
            .map_err(|_| unavailable("the store is closed"))?;
        let idle = self.idle.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.options.connect().await?,
        };
        Ok(PooledReader { readers: self, connection: Some(connection), _permit: permit })
    }

    /// Returns the row of a query that always has one.
    pub(in crate::store::sqlite) async fn one<T>(
        &self,
        query: QueryAs<'_, Sqlite, T, SqliteArguments>,
    ) -> SqlResult<T>
    where
        T: for<'r> FromRow<'r, SqliteRow> + Send + Unpin,
    {
        let mut reader = self.take().await?;
        let row = query.fetch_one(&mut *reader).await;
        reader.done(row.map_err(SqlError::from))
    }

    /// Closes the pool. Later reads fail; reads in progress finish.
    pub(in crate::store::sqlite) async fn close(&self) {
        use sqlx::Connection;
        self.permits.close();
        let idle = std::mem::take(&mut *self.idle.lock());
        for connection in idle {
            if let Err(error) = connection.close().await {
                tracing::warn!(%error, "closing a reading connection of the store failed");
            }
        }
    }
}

/// A connection that was taken out of the pool.
pub(in crate::store::sqlite) struct PooledReader<'r> {
    readers: &'r Readers,
    connection: Option<SqliteConnection>,
    _permit: SemaphorePermit<'r>,
}

impl PooledReader<'_> {
    /// Puts the connection back, or drops it if the read has failed.
    pub(in crate::store::sqlite) fn done<T>(mut self, outcome: SqlResult<T>) -> SqlResult<T> {
        if outcome.is_err() {
            self.connection = None;
        }
        outcome
    }
}

impl Deref for PooledReader<'_> {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        self.connection.as_ref().expect("only taken at the end")
    }
}

impl DerefMut for PooledReader<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        self.connection.as_mut().expect("only taken at the end")
    }
}

impl Drop for PooledReader<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && !self.readers.permits.is_closed()
        {
            self.readers.idle.lock().push(connection);
        }
    }
}
