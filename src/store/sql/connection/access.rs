//! The interface through which the shared statements run on a database.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::query::{Query, ReadRow, ScalarQuery};
use super::work::{ErasedWork, ResultCell, UnitOfWork, WorkFuture};
use super::{Connection, Dialect};
use crate::domain::{AccountId, JobId};
use crate::store::corrupt_rows::{CorruptRows, ReadableRow};
use crate::store::encryption::encrypted_fields::EncryptedFields;
use crate::store::sql::error::SqlResult;
use crate::store::sql::months::Months;
use crate::store::{Result, SecretCipher, StoreErrorKind};

/// A function that is a unit of work for its other arguments, a tuple.
pub(in crate::store) trait WorkFunction<'c, A, T> {
    /// Starts the work.
    fn start(&self, connection: &'c mut Connection<'c>, arguments: A) -> WorkFuture<'c, T>;
}

/// Implements [`WorkFunction`] for functions with these arguments.
macro_rules! work_functions {
    ($(($($argument:ident: $type:ident),*))*) => {$(
        impl<'c, F, R, T, $($type),*> WorkFunction<'c, ($($type,)*), T> for F
        where
            F: Fn(&'c mut Connection<'c>, $($type),*) -> R,
            R: Future<Output = SqlResult<T>> + Send + 'c,
        {
            fn start(
                &self,
                connection: &'c mut Connection<'c>,
                ($($argument,)*): ($($type,)*),
            ) -> WorkFuture<'c, T> {
                Box::pin(self(connection, $($argument),*))
            }
        }
    )*};
}

work_functions! {
    ()
    (a: A)
    (a: A, b: B)
    (a: A, b: B, c: C)
    (a: A, b: B, c: C, d: D)
    (a: A, b: B, c: C, d: D, e: E)
}

/// Returns the unit of work that calls a function with a clone of the arguments.
pub(in crate::store) fn call<T, A, F>(function: F, arguments: A) -> impl UnitOfWork<T>
where
    A: Clone + Send + Sync + 'static,
    F: for<'c> WorkFunction<'c, A, T> + Send + Sync + 'static,
{
    move |connection| function.start(connection, arguments.clone())
}

/// The scope in which a unit of work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum WorkScope {
    /// One statement that only reads.
    Read,
    /// Several statements that only read, on one snapshot.
    Snapshot,
    /// Statements that only read and may take long.
    LongRead,
    /// One statement that writes.
    Statement,
    /// A transaction.
    Transaction,
    /// A transaction that fails with `Locked` if a lock that it needs is held for a quarter of a
    /// second.
    BriefLockTransaction,
}

/// Runs work on a database. The work runs to its end even if the caller's future is dropped.
pub(in crate::store) trait Access: Send + Sync {
    /// The database's dialect of SQL.
    const DIALECT: Dialect;

    /// Runs work that writes about `rows` rows.
    fn run(&self, scope: WorkScope, rows: usize, work: ErasedWork) -> BoxFuture<'_, SqlResult<()>>;

    /// Runs work in a scope, and returns its result.
    fn run_in<T: Send + 'static>(
        &self,
        operation: &'static str,
        scope: WorkScope,
        rows: usize,
        work: impl UnitOfWork<T>,
    ) -> impl Future<Output = Result<T>> + Send {
        let slot = ResultCell::new();
        let running = self.run(scope, rows, slot.filled_by(work));
        slot.filled_after(operation, running)
    }

    /// Runs one statement that only reads.
    fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl UnitOfWork<T>,
    ) -> impl Future<Output = Result<T>> + Send {
        self.run_in(operation, WorkScope::Read, 0, work)
    }

    /// Runs several statements that only read, on one snapshot.
    fn snapshot<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl UnitOfWork<T>,
    ) -> impl Future<Output = Result<T>> + Send {
        self.run_in(operation, WorkScope::Snapshot, 0, work)
    }

    /// Runs statements that only read and may take long.
    fn long_read<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl UnitOfWork<T>,
    ) -> impl Future<Output = Result<T>> + Send {
        self.run_in(operation, WorkScope::LongRead, 0, work)
    }

    /// Runs one statement that writes about `rows` rows.
    fn statement<T: Send + 'static>(
        &self,
        operation: &'static str,
        rows: usize,
        work: impl UnitOfWork<T>,
    ) -> impl Future<Output = Result<T>> + Send {
        self.run_in(operation, WorkScope::Statement, rows, work)
    }

    /// Runs a transaction that writes about `rows` rows.
    fn batch<T: Send + 'static>(
        &self,
        operation: &'static str,
        rows: usize,
        work: impl UnitOfWork<T>,
    ) -> impl Future<Output = Result<T>> + Send {
        self.run_in(operation, WorkScope::Transaction, rows, work)
    }

    /// Runs a transaction that writes few rows.
    fn transaction<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl UnitOfWork<T>,
    ) -> impl Future<Output = Result<T>> + Send {
        self.batch(operation, 1, work)
    }

    /// Runs a transaction that writes few rows and gives up if a lock that it needs is held for a
    /// quarter of a second: then it returns `None`.
    fn brief_lock_transaction<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl UnitOfWork<T>,
    ) -> impl Future<Output = Result<Option<T>>> + Send {
        let running = self.run_in(operation, WorkScope::BriefLockTransaction, 1, work);
        async move {
            match running.await {
                Err(error) if error.kind() == StoreErrorKind::Locked => Ok(None),
                done => done.map(Some),
            }
        }
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

    /// Returns the row of a query that always returns one.
    fn one<T: ReadRow>(
        &self,
        operation: &'static str,
        query: Query<T>,
    ) -> impl Future<Output = Result<T>> + Send {
        self.read(operation, move |connection| Box::pin(query.clone().fetch_one(connection)))
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

/// The parts of an adapter that do not depend on its database.
pub(in crate::store) struct AdapterShared {
    pub(in crate::store) months: Months,
    pub(in crate::store) encrypted_fields: EncryptedFields,
    pub(in crate::store) corrupt_rows: Arc<CorruptRows>,
}

impl AdapterShared {
    pub(in crate::store) fn new(cipher: &SecretCipher, months: Months) -> Self {
        let corrupt_rows = Arc::<CorruptRows>::default();
        let encrypted_fields = EncryptedFields::new(cipher.clone(), corrupt_rows.clone());
        Self { months, encrypted_fields, corrupt_rows }
    }
}

/// An adapter that implements the contracts with the statements of this folder. The default methods
/// suit a database with one writer at a time, where the transaction that changes an account also
/// fences it.
pub(in crate::store) trait Database: Send + Sync + 'static {
    /// The type of its accesses.
    type Access: Access;
    /// Its dialect of SQL.
    const DIALECT: Dialect = <Self::Access as Access>::DIALECT;

    /// The access for users' requests.
    fn api(&self) -> &Self::Access;
    /// The access for leaders, the notifier and upkeep.
    fn scheduler(&self) -> &Self::Access {
        self.api()
    }

    /// The access for executors and the job rescuer.
    fn executor(&self) -> &Self::Access {
        self.api()
    }

    /// The parts that do not depend on the database.
    fn shared(&self) -> &AdapterShared;

    /// The background counts of the jobs of a month.
    fn months(&self) -> &Months {
        &self.shared().months
    }

    /// The cipher of secret columns.
    fn encrypted_fields(&self) -> &EncryptedFields {
        &self.shared().encrypted_fields
    }

    /// Returns the rows of a query on jobs that can be read, and logs the others.
    fn readable_jobs<T: Send + 'static>(
        &self,
        operation: &'static str,
        query: Query<ReadableRow<JobId, T>>,
    ) -> impl Future<Output = Result<Vec<T>>> + Send
    where
        ReadableRow<JobId, T>: ReadRow,
    {
        async move {
            let rows = self.executor().all(operation, query).await?;
            Ok(self.corrupt_rows().leave_out("jobs", rows))
        }
    }

    /// The log of corrupt rows.
    fn corrupt_rows(&self) -> &Arc<CorruptRows> {
        &self.shared().corrupt_rows
    }

    /// Runs work of a user's request that may add to the history of jobs, in a transaction.
    fn run_with_history(&self, work: ErasedWork) -> BoxFuture<'_, SqlResult<()>> {
        self.api().run(WorkScope::Transaction, 1, work)
    }

    /// Runs a transaction of a user's request that may add to the history of jobs.
    fn history_transaction<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl UnitOfWork<T>,
    ) -> impl Future<Output = Result<T>> + Send {
        let slot = ResultCell::new();
        let running = self.run_with_history(slot.filled_by(work));
        slot.filled_after(operation, running)
    }

    /// Invalidates the definitions of an account that leaders read before its plan was changed.
    /// Called after the change is committed.
    fn fence_plan(
        &self,
        _operation: &'static str,
        _account: AccountId,
    ) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Does the same as [`fence_plan`](Self::fence_plan) after the suspension of an account, and
    /// also waits for the transactions that admitted work for it before.
    fn fence_suspension(
        &self,
        _operation: &'static str,
        _account: AccountId,
    ) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// Does the same as [`fence_plan`](Self::fence_plan) before the rows of a deleted account are
    /// removed, because the replica that deleted it may have died before it fenced the account.
    fn fence_deleted(&self, _account: AccountId) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }
}
