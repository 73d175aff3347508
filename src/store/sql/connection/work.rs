//! Units of work, and the cells for their results.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::Connection;
use crate::runtime::Mutex;
use crate::store::sql::error::{SqlError, SqlResult};
use crate::store::{Result, StoreErrorKind};

/// The future of a unit of work.
pub(in crate::store) type WorkFuture<'c, T> =
    Pin<Box<dyn Future<Output = SqlResult<T>> + Send + 'c>>;

/// A unit of work. The adapter may run it again after a conflict with a concurrent transaction.
pub(in crate::store) trait UnitOfWork<T>:
    for<'c> Fn(&'c mut Connection<'c>) -> WorkFuture<'c, T> + Send + Sync + 'static
{
}

impl<T, W> UnitOfWork<T> for W where
    W: for<'c> Fn(&'c mut Connection<'c>) -> WorkFuture<'c, T> + Send + Sync + 'static
{
}

/// A unit of work that puts its result into a [`ResultCell`]. All units of work have this type for
/// an adapter, so that the compiler translates the adapter's code once and not for each of them.
pub(in crate::store) type ErasedWork = Arc<dyn UnitOfWork<()>>;

/// The result of the last run of a unit of work.
pub(in crate::store) struct ResultCell<T>(Arc<Mutex<Option<T>>>);

impl<T: Send + 'static> ResultCell<T> {
    /// Returns an empty cell.
    pub(in crate::store) fn new() -> Self {
        Self(Arc::default())
    }

    /// Returns another handle of the cell.
    pub(in crate::store) fn handle(&self) -> Self {
        Self(self.0.clone())
    }

    /// Replaces the result.
    pub(in crate::store) fn put(&self, result: T) {
        *self.0.lock() = Some(result);
    }

    /// Returns the result of work that has succeeded.
    pub(in crate::store) fn take(&self) -> SqlResult<T> {
        let result = self.0.lock().take();
        result.ok_or_else(|| SqlError::new(StoreErrorKind::Internal, "the work left no result"))
    }

    /// Returns work that puts the result of `work` into this cell.
    pub(in crate::store) fn filled_by(&self, work: impl UnitOfWork<T>) -> ErasedWork {
        let cell = self.handle();
        Arc::new(move |connection| {
            let (cell, running) = (cell.handle(), work(connection));
            Box::pin(async move { running.await.map(|result| cell.put(result)) })
        })
    }

    /// Returns the result when `running`, which runs the work, has ended.
    pub(in crate::store::sql) async fn filled_after(
        self,
        operation: &'static str,
        running: BoxFuture<'_, SqlResult<()>>,
    ) -> Result<T> {
        let done = running.await.and_then(|()| self.take());
        done.map_err(|error| error.of(operation))
    }
}
