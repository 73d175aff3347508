//! The writer: a task that owns the only connection that writes.
//!
//! A caller hands its work over and waits for the result. So a caller that goes away cannot cancel
//! a transaction half-way: work that was handed over runs to its end, and other work never begins.
//!
//! When the writer is free, all waiting work goes into one transaction and shares one flush to the
//! disk (group commit). If there are several pieces of work, each has a savepoint of its own. A
//! group ends with the first large piece. So the batches of the stages overlap: a stage goes on
//! with its result while the batch of the next one is written, and the stages do not wait for each
//! other. Work that fails is rolled back alone. Callers get their results after the commit.
//!
//! If the transaction itself fails (a full disk, a locked file), all callers in it get the failure.
//! The connection is opened again before the next transaction, so that no state of it is left over.

use std::collections::VecDeque;
use std::io;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot};

use crate::runtime::{TaskKind, Tasks};
use crate::store::StoreErrorKind;
use crate::store::sql::error::{SqlError, SqlResult};

/// The number of callers that can wait in the queue. Further callers wait to enter it.
const QUEUE: usize = 256;
/// The maximum number of pieces of work that are taken from the queue at once.
const GROUP: usize = 64;
/// A transaction with this many rows takes no more work, because each piece of work waits for all
/// of it.
const ROWS: usize = 64;

/// Sends a caller the failure of the transaction, or the result of its own work if there is none.
type WriteAnswer = Box<dyn FnOnce(Option<SqlError>) + Send>;

struct WorkResult {
    succeeded: bool,
    answer: WriteAnswer,
}

type RunWork = Box<
    dyn for<'c> FnOnce(Result<&'c mut SqliteConnection, SqlError>) -> BoxFuture<'c, WorkResult>
        + Send,
>;

/// A piece of work, and the approximate number of rows that it writes.
struct QueuedWork {
    rows: usize,
    run: RunWork,
}

/// A handle of the writer.
#[derive(Clone)]
pub(in crate::store::sqlite) struct SqliteWriter {
    queue: mpsc::Sender<QueuedWork>,
}

impl SqliteWriter {
    /// Starts the writer. It finishes the work that was handed over and ends when the last handle
    /// is dropped or `tasks` begin to stop.
    ///
    /// It runs on a thread of its own. Every statement is a round trip to SQLite's thread. On a
    /// shared thread, each one would wait behind all tasks that are ready, just when there is most
    /// to write.
    ///
    /// # Errors
    /// If the operating system cannot create the thread.
    pub(in crate::store::sqlite) fn start(
        tasks: &Tasks,
        options: SqliteConnectOptions,
        connection: SqliteConnection,
    ) -> io::Result<Self> {
        let (queue, works) = mpsc::channel(QUEUE);
        let seat = WritingConnection { options, connection: Some(connection) };
        let writer_tasks = tasks.clone();
        tasks.spawn_apart(TaskKind::Writer, || run(writer_tasks, seat, works))?;
        Ok(Self { queue })
    }

    /// Runs `work`, which writes about `rows` rows, in a transaction. Returns after the commit.
    pub(in crate::store::sqlite) async fn write<T, W>(&self, rows: usize, work: W) -> SqlResult<T>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, SqlResult<T>> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel::<SqlResult<T>>();
        let run: RunWork = Box::new(move |connection| {
            Box::pin(async move {
                let outcome = match connection {
                    Ok(connection) => work(connection).await,
                    Err(error) => Err(error),
                };
                let succeeded = outcome.is_ok();
                let answer: WriteAnswer = Box::new(move |error| {
                    // The caller may have gone away.
                    let _ = sender.send(outcome.and_then(|value| error.map_or(Ok(value), Err)));
                });
                WorkResult { succeeded, answer }
            })
        });
        let closed = |_| SqlError::new(StoreErrorKind::Unavailable, "the store is closed");
        let work = QueuedWork { rows, run };
        self.queue.send(work).await.map_err(closed)?;
        let lost = |_| SqlError::new(StoreErrorKind::Internal, "the write was abandoned");
        receiver.await.map_err(lost).flatten()
    }
}

async fn run(tasks: Tasks, mut seat: WritingConnection, mut works: mpsc::Receiver<QueuedWork>) {
    let mut taken = Vec::with_capacity(GROUP);
    loop {
        let count = tokio::select! {
            biased;
            count = works.recv_many(&mut taken, GROUP) => count,
            () = tasks.stopping().cancelled(), if !works.is_closed() => {
                works.close();
                continue;
            }
        };
        if count == 0 {
            break;
        }
        let mut waiting = VecDeque::from(std::mem::take(&mut taken));
        while !waiting.is_empty() {
            seat.transact(&mut waiting).await;
        }
    }
    seat.leave().await;
}

/// The writing connection, which is opened again whenever its state is unknown.
struct WritingConnection {
    options: SqliteConnectOptions,
    connection: Option<SqliteConnection>,
}

/// The end of a piece of work within the transaction.
enum WorkStep {
    /// It waits for the commit.
    Kept(WriteAnswer),
    /// It was rolled back alone.
    Undone,
    /// The transaction is lost, with all work before it.
    Broken,
}

impl WritingConnection {
    /// Moves work from `waiting` into one transaction until that has [`ROWS`] rows or a piece of
    /// work breaks it.
    async fn transact(&mut self, waiting: &mut VecDeque<QueuedWork>) {
        let connection = match self.begin().await {
            Ok(connection) => connection,
            Err(error) => {
                self.leave().await;
                for work in waiting.drain(..) {
                    ((work.run)(Err(error.clone())).await.answer)(None);
                }
                return;
            }
        };
        let mut kept = Vec::with_capacity(waiting.len());
        let mut failure = None;
        let mut rows = 0;
        let alone = waiting.len() == 1 || waiting[0].rows >= ROWS;
        while rows < ROWS
            && let Some(work) = waiting.pop_front()
        {
            rows += work.rows;
            match step(connection, work, alone).await {
                WorkStep::Kept(answer) => kept.push(answer),
                WorkStep::Undone => {}
                WorkStep::Broken => {
                    let message = "rolled back together with a write that broke the transaction";
                    failure = Some(SqlError::new(StoreErrorKind::Unavailable, message));
                    break;
                }
            }
        }
        if failure.is_none() {
            failure = execute(connection, "COMMIT").await.err();
        }
        if failure.is_some() {
            self.leave().await;
        }
        for answer in kept {
            answer(failure.clone());
        }
    }

    async fn begin(&mut self) -> SqlResult<&mut SqliteConnection> {
        if self.connection.is_none() {
            self.connection = Some(self.options.connect().await?);
        }
        let connection = self.connection.as_mut().expect("made above");
        execute(connection, "BEGIN IMMEDIATE").await?;
        Ok(connection)
    }

    /// Closes the connection, which rolls back what it has not committed.
    async fn leave(&mut self) {
        if let Some(connection) = self.connection.take()
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "closing the store's writing connection failed");
        }
    }
}

/// Runs one piece of work. `alone` is `true` if nothing else is in the transaction, so that no
/// savepoint is needed to roll it back alone.
async fn step(connection: &mut SqliteConnection, work: QueuedWork, alone: bool) -> WorkStep {
    if !alone && let Err(error) = execute(connection, "SAVEPOINT work").await {
        ((work.run)(Err(error)).await.answer)(None);
        return WorkStep::Broken;
    }
    let done = AssertUnwindSafe((work.run)(Ok(connection))).catch_unwind().await;
    let answer = match done {
        Ok(WorkResult { succeeded: true, answer }) if alone => return WorkStep::Kept(answer),
        Ok(WorkResult { succeeded: true, answer }) => {
            match execute(connection, "RELEASE work").await {
                Ok(()) => return WorkStep::Kept(answer),
                Err(error) => {
                    answer(Some(error));
                    return WorkStep::Broken;
                }
            }
        }
        Ok(WorkResult { answer, .. }) => Some(answer),
        Err(_) => {
            tracing::error!("a write panicked and was rolled back");
            None
        }
    };
    let step = undo(connection, alone).await;
    if let Some(answer) = answer {
        answer(None);
    }
    step
}

/// Rolls back what a piece of work has written. A failure such as a full disk may already have
/// rolled back the whole transaction, and the savepoint with it.
async fn undo(connection: &mut SqliteConnection, alone: bool) -> WorkStep {
    if alone {
        return WorkStep::Broken;
    }
    let undone = async {
        execute(connection, "ROLLBACK TO work").await?;
        execute(connection, "RELEASE work").await
    };
    if undone.await.is_ok() { WorkStep::Undone } else { WorkStep::Broken }
}

async fn execute(connection: &mut SqliteConnection, sql: &'static str) -> SqlResult<()> {
    sqlx::query(sql).execute(connection).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
