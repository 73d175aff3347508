//! The connections that read.
//!
//! A few, taken out for a read and put back after it. A read that fails gives its connection up,
//! so that a broken one is not used again; one that is dropped half-way puts it back, for the
//! driver ends what it had begun before it does anything else.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sqlx::query::QueryAs;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteRow};
use sqlx::{ConnectOptions, FromRow, Sqlite, SqliteConnection};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::store::StoreErrorKind;
use crate::store::sql::fault::{Fault, Outcome};

/// The connections that read.
pub(super) struct Readers {
    options: SqliteConnectOptions,
    patience: Duration,
    places: Semaphore,
    idle: Mutex<Vec<SqliteConnection>>,
}

impl Readers {
    /// At most `connections`, made when they are needed; who finds all taken waits for `patience`.
    pub(super) fn new(options: SqliteConnectOptions, connections: u32, patience: Duration) -> Self {
        let places = usize::try_from(connections).unwrap_or(usize::MAX).clamp(1, 64);
        let idle = Mutex::new(Vec::with_capacity(places));
        Self { options, patience, places: Semaphore::new(places), idle }
    }

    /// Takes a connection.
    pub(super) async fn take(&self) -> Outcome<Reader<'_>> {
        let unavailable = |why| Fault::new(StoreErrorKind::Unavailable, why);
        let place = tokio::time::timeout(self.patience, self.places.acquire())
            .await
            .map_err(|_| unavailable("all read connections are in use"))?
            .map_err(|_| unavailable("the store is closed"))?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.options.connect().await?,
        };
        Ok(Reader { readers: self, connection: Some(connection), _place: place })
    }

    /// All rows of a query.
    pub(super) async fn all<T>(
        &self,
        query: QueryAs<'_, Sqlite, T, SqliteArguments>,
    ) -> Outcome<Vec<T>>
    where
        T: for<'r> FromRow<'r, SqliteRow> + Send + Unpin,
    {
        let mut reader = self.take().await?;
        let rows = query.fetch_all(&mut *reader).await;
        reader.done(rows.map_err(Fault::from))
    }

    /// The row of a query that always finds one.
    pub(super) async fn one<T>(&self, query: QueryAs<'_, Sqlite, T, SqliteArguments>) -> Outcome<T>
    where
        T: for<'r> FromRow<'r, SqliteRow> + Send + Unpin,
    {
        let mut reader = self.take().await?;
        let row = query.fetch_one(&mut *reader).await;
        reader.done(row.map_err(Fault::from))
    }

    /// Lets nobody read any more. Reads that are under way end.
    pub(super) async fn close(&self) {
        use sqlx::Connection;
        self.places.close();
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        for connection in idle {
            if let Err(error) = connection.close().await {
                tracing::warn!(%error, "closing a reading connection of the store failed");
            }
        }
    }
}

/// A connection that was taken out.
pub(super) struct Reader<'r> {
    readers: &'r Readers,
    connection: Option<SqliteConnection>,
    _place: SemaphorePermit<'r>,
}

impl Reader<'_> {
    /// Puts the connection back, unless the read has failed.
    pub(super) fn done<T>(mut self, outcome: Outcome<T>) -> Outcome<T> {
        if outcome.is_err() {
            self.connection = None;
        }
        outcome
    }
}

impl Deref for Reader<'_> {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        self.connection.as_ref().expect("only taken at the end")
    }
}

impl DerefMut for Reader<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        self.connection.as_mut().expect("only taken at the end")
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && !self.readers.places.is_closed()
        {
            self.readers.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}
