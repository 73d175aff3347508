//! The interface through which the shared statements run on a database.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::connection::{Connection, Dialect};
use super::fault::Outcome;
use super::months::Months;
use super::query::{Query, ReadRow, ScalarQuery};
use crate::domain::AccountId;
use crate::store::Result;
use crate::store::corrupt_rows::CorruptRows;
use crate::store::encryption::encrypted_fields::EncryptedFields;

/// The future of a unit of work.
pub(in crate::store) type Working<'c, T> = Pin<Box<dyn Future<Output = Outcome<T>> + Send + 'c>>;

/// A unit of work. The adapter may run it again after a conflict with a concurrent transaction.
pub(in crate::store) trait Work<T>:
    for<'c> Fn(&'c mut Connection<'c>) -> Working<'c, T> + Send + Sync + 'static
{
}

impl<T, W> Work<T> for W where
    W: for<'c> Fn(&'c mut Connection<'c>) -> Working<'c, T> + Send + Sync + 'static
{
}

/// Runs work on a database, to its end even if the caller's future is dropped. The defaults are those
/// of a database whose writers take turns.
pub(in crate::store) trait Access: Send + Sync {
    /// Runs one statement that only reads.
    fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl Work<T>,
    ) -> impl Future<Output = Result<T>> + Send;

    /// Runs several statements that only read, on one snapshot.
    fn snapshot<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl Work<T>,
    ) -> impl Future<Output = Result<T>> + Send;

    /// Runs statements that only read and may take long.
    fn patient_read<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl Work<T>,
    ) -> impl Future<Output = Result<T>> + Send {
        self.read(operation, work)
    }

    /// Runs one statement that writes about `rows` rows.
    fn statement<T: Send + 'static>(
        &self,
        operation: &'static str,
        rows: usize,
        work: impl Work<T>,
    ) -> impl Future<Output = Result<T>> + Send {
        self.batch(operation, rows, work)
    }

    /// Runs a transaction that writes about `rows` rows.
    fn batch<T: Send + 'static>(
        &self,
        operation: &'static str,
        rows: usize,
        work: impl Work<T>,
    ) -> impl Future<Output = Result<T>> + Send;

    /// Runs a transaction that writes few rows.
    fn transaction<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl Work<T>,
    ) -> impl Future<Output = Result<T>> + Send {
        self.batch(operation, 1, work)
    }

    /// Runs a transaction that writes few rows and gives up if a lock that it needs is held for a
    /// quarter of a second: then it returns `None`.
    fn impatient_transaction<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl Work<T>,
    ) -> impl Future<Output = Result<Option<T>>> + Send {
        async move { self.transaction(operation, work).await.map(Some) }
    }

    /// Returns all rows of a query.
    fn all<T: ReadRow>(
        &self,
        operation: &'static str,
        query: Query<T>,
    ) -> impl Future<Output = Result<Vec<T>>> + Send {
        self.read(operation, move |connection| Box::pin(query.clone().fetch_all(connection)))
    }

    /// Returns the first row of a query, if there is one.
    fn optional<T: ReadRow>(
        &self,
        operation: &'static str,
        query: Query<T>,
    ) -> impl Future<Output = Result<Option<T>>> + Send {
        self.read(operation, move |connection| Box::pin(query.clone().fetch_optional(connection)))
    }

    /// Returns the value of the first row of a query, if there is one.
    fn scalar<T: Send + 'static>(
        &self,
        operation: &'static str,
        query: ScalarQuery<T>,
    ) -> impl Future<Output = Result<Option<T>>> + Send
    where
        (T,): ReadRow,
    {
        self.read(operation, move |connection| Box::pin(query.clone().fetch_optional(connection)))
    }

    /// Returns the values of all rows of a query.
    fn scalars<T: Send + 'static>(
        &self,
        operation: &'static str,
        query: ScalarQuery<T>,
    ) -> impl Future<Output = Result<Vec<T>>> + Send
    where
        (T,): ReadRow,
    {
        self.read(operation, move |connection| Box::pin(query.clone().fetch_all(connection)))
    }

    /// Runs one statement that writes about `rows` rows, and returns the number of rows it changed.
    fn execute(
        &self,
        operation: &'static str,
        rows: usize,
        query: Query,
    ) -> impl Future<Output = Result<u64>> + Send {
        self.statement(operation, rows, move |connection| {
            Box::pin(query.clone().execute(connection))
        })
    }
}

/// An adapter that implements the contracts with the statements of this folder. The defaults are those
/// of a database whose writers take turns: a transaction that changes an account has also fenced it.
pub(in crate::store) trait Database: Send + Sync + 'static {
    /// The kind of its accesses.
    type Access: Access;
    /// Its dialect of SQL.
    const DIALECT: Dialect;

    /// The access for users' requests.
    fn api(&self) -> &Self::Access;
    /// The access for leaders, sweeps and upkeep.
    fn scheduler(&self) -> &Self::Access {
        self.api()
    }

    /// The access for executors.
    fn executor(&self) -> &Self::Access {
        self.api()
    }

    /// The background counts of the jobs of a month.
    fn months(&self) -> &Months;
    /// The cipher of secret columns.
    fn encrypted_fields(&self) -> &EncryptedFields;
    /// The log of corrupt rows.
    fn corrupt_rows(&self) -> &Arc<CorruptRows>;

    /// Runs a transaction of a user's request that may add to the history of jobs.
    fn history_transaction<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl Work<T>,
    ) -> impl Future<Output = Result<T>> + Send {
        self.api().transaction(operation, work)
    }

    /// Makes definitions of an account stale that leaders read before its plan was changed. Called
    /// after the change is committed.
    fn fence_plan(
        &self,
        _operation: &'static str,
        _account: AccountId,
    ) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Does the same after an account was suspended, and also waits for transactions that admitted
    /// work for it before.
    fn fence_suspension(
        &self,
        _operation: &'static str,
        _account: AccountId,
    ) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Does the same before the rows of a deleted account are removed: the replica that deleted it
    /// may have died before it fenced the account.
    fn fence_deleted(&self, _account: AccountId) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}
