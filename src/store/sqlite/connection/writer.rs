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
use crate::store::sql::fault::{Fault, Outcome};
use crate::store::{Result, StoreErrorKind};

/// The number of callers that can wait in the queue. Further callers wait to enter it.
const QUEUE: usize = 256;
/// The maximum number of pieces of work that are taken from the queue at once.
const GROUP: usize = 64;
/// A transaction with this many rows takes no more work, because each piece of work waits for all
/// of it.
const ROWS: usize = 64;

/// Sends a caller the failure of the transaction, or the result of its own work if there is none.
type Answer = Box<dyn FnOnce(Option<Fault>) + Send>;

struct WorkResult {
    succeeded: bool,
    answer: Answer,
}

type Run = Box<
    dyn for<'c> FnOnce(
            std::result::Result<&'c mut SqliteConnection, Fault>,
        ) -> BoxFuture<'c, WorkResult>
        + Send,
>;

/// A piece of work, and the approximate number of rows that it writes.
struct Work {
    rows: usize,
    run: Run,
}

/// A handle of the writer.
#[derive(Clone)]
pub(in super::super) struct Writer {
    queue: mpsc::Sender<Work>,
}

impl Writer {
    /// Starts the writer. It finishes the work that was handed over and ends when the last handle
    /// is dropped or `tasks` begin to stop.
    ///
    /// It runs on a thread of its own. Every statement is a round trip to SQLite's thread. On a
    /// shared thread, each one would wait behind all tasks that are ready, just when there is most
    /// to write.
    ///
    /// # Errors
    /// If the operating system cannot create the thread.
    pub(in super::super) fn start(
        tasks: &Tasks,
        options: SqliteConnectOptions,
        connection: SqliteConnection,
    ) -> io::Result<Self> {
        let (queue, works) = mpsc::channel(QUEUE);
        let seat = Seat { options, connection: Some(connection) };
        let told = tasks.clone();
        tasks.spawn_apart(TaskKind::Writer, || run(told, seat, works))?;
        Ok(Self { queue })
    }

    /// Runs `work`, which writes about `rows` rows, in a transaction. Returns after the commit.
    pub(in super::super) async fn write<T, W>(
        &self,
        operation: &'static str,
        rows: usize,
        work: W,
    ) -> Result<T>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Outcome<T>> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel::<Outcome<T>>();
        let run: Run = Box::new(move |connection| {
            Box::pin(async move {
                let outcome = match connection {
                    Ok(connection) => work(connection).await,
                    Err(fault) => Err(fault),
                };
                let succeeded = outcome.is_ok();
                let answer: Answer = Box::new(move |fault| {
                    // The caller may have gone away.
                    let _ = sender.send(outcome.and_then(|value| fault.map_or(Ok(value), Err)));
                });
                WorkResult { succeeded, answer }
            })
        });
        let closed = |_| Fault::new(StoreErrorKind::Unavailable, "the store is closed");
        let work = Work { rows, run };
        self.queue.send(work).await.map_err(|error| closed(error.to_string()).of(operation))?;
        let lost = |_| Fault::new(StoreErrorKind::Internal, "the write was abandoned");
        receiver.await.map_err(lost).flatten().map_err(|fault| fault.of(operation))
    }
}

async fn run(tasks: Tasks, mut seat: Seat, mut works: mpsc::Receiver<Work>) {
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
struct Seat {
    options: SqliteConnectOptions,
    connection: Option<SqliteConnection>,
}

/// The end of a piece of work within the transaction.
enum Step {
    /// It waits for the commit.
    Kept(Answer),
    /// It was rolled back alone.
    Undone,
    /// The transaction is lost, with all work before it.
    Broken,
}

impl Seat {
    /// Moves work from `waiting` into one transaction until that has [`ROWS`] rows or a piece of
    /// work breaks it.
    async fn transact(&mut self, waiting: &mut VecDeque<Work>) {
        let connection = match self.begin().await {
            Ok(connection) => connection,
            Err(fault) => {
                self.leave().await;
                for work in waiting.drain(..) {
                    ((work.run)(Err(fault.clone())).await.answer)(None);
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
                Step::Kept(answer) => kept.push(answer),
                Step::Undone => {}
                Step::Broken => {
                    let message = "rolled back together with a write that broke the transaction";
                    failure = Some(Fault::new(StoreErrorKind::Unavailable, message));
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

    async fn begin(&mut self) -> Outcome<&mut SqliteConnection> {
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
async fn step(connection: &mut SqliteConnection, work: Work, alone: bool) -> Step {
    if !alone && let Err(fault) = execute(connection, "SAVEPOINT work").await {
        ((work.run)(Err(fault)).await.answer)(None);
        return Step::Broken;
    }
    let done = AssertUnwindSafe((work.run)(Ok(connection))).catch_unwind().await;
    let answer = match done {
        Ok(WorkResult { succeeded: true, answer }) if alone => return Step::Kept(answer),
        Ok(WorkResult { succeeded: true, answer }) => {
            match execute(connection, "RELEASE work").await {
                Ok(()) => return Step::Kept(answer),
                Err(fault) => {
                    answer(Some(fault));
                    return Step::Broken;
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
async fn undo(connection: &mut SqliteConnection, alone: bool) -> Step {
    if alone {
        return Step::Broken;
    }
    let undone = async {
        execute(connection, "ROLLBACK TO work").await?;
        execute(connection, "RELEASE work").await
    };
    if undone.await.is_ok() { Step::Undone } else { Step::Broken }
}

async fn execute(connection: &mut SqliteConnection, sql: &'static str) -> Outcome<()> {
    sqlx::query(sql).execute(connection).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;
    use crate::store::sqlite::{Settings, SqliteStore};

    async fn store() -> (SqliteStore, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = Settings::new(folder.path().join("store.db"));
        let store = SqliteStore::open(&settings, &crate::store::encryption::cipher::sealer())
            .await
            .expect("open");
        store.migrate().await.expect("migrate");
        (store, folder)
    }

    /// Writes a row, waits at `gate` if there is one, and returns `end`.
    async fn note(
        connection: &mut SqliteConnection,
        name: &'static str,
        gate: Option<oneshot::Receiver<()>>,
        end: Outcome<()>,
    ) -> Outcome<()> {
        sqlx::query("INSERT INTO meta (name, value) VALUES (?1, 0)")
            .bind(name)
            .execute(connection)
            .await?;
        if let Some(gate) = gate {
            gate.await.expect("the gate opens");
        }
        end
    }

    /// Returns the rows that `note` has written.
    async fn noted(store: &SqliteStore) -> Vec<String> {
        let query = sqlx::query_as("SELECT name FROM meta WHERE value = 0 ORDER BY name");
        let rows: Vec<(String,)> = store.connections.readers.all(query).await.expect("read");
        rows.into_iter().map(|(name,)| name).collect()
    }

    fn refused() -> Outcome<()> {
        Err(Fault::new(StoreErrorKind::Rejected, "refused"))
    }

    #[tokio::test]
    async fn work_that_fails_alone_or_panics_is_undone() {
        let (store, _folder) = store().await;
        let failed = store
            .connections
            .writer
            .write("a", 1, |c| Box::pin(note(c, "failed", None, refused())))
            .await;
        assert_eq!(failed.expect_err("refused").kind(), StoreErrorKind::Rejected);
        let panicked: Result<()> = store
            .connections
            .writer
            .write("b", 1, |c| {
                Box::pin(async move {
                    note(c, "panicked", None, Ok(())).await?;
                    panic!("in the middle of a write")
                })
            })
            .await;
        assert_eq!(panicked.expect_err("panicked").kind(), StoreErrorKind::Internal);
        assert!(noted(&store).await.is_empty());
        store
            .connections
            .writer
            .write("c", 1, |c| Box::pin(note(c, "fine", None, Ok(()))))
            .await
            .expect("it goes on");
        assert_eq!(noted(&store).await, ["fine"]);
    }

    #[tokio::test]
    async fn work_that_fails_beside_others_is_undone_alone() {
        let (store, _folder) = store().await;
        let (open, gate) = oneshot::channel();
        // While the first write occupies the writer, the others gather in the queue.
        let first = store
            .connections
            .writer
            .write("a", 1, |c| Box::pin(note(c, "first", Some(gate), Ok(()))));
        let one =
            store.connections.writer.write("b", 1, |c| Box::pin(note(c, "one", None, Ok(()))));
        let two =
            store.connections.writer.write("c", 1, |c| Box::pin(note(c, "two", None, refused())));
        let three = store.connections.writer.write("d", 1, |c| {
            Box::pin(async move {
                note(c, "three", None, Ok(())).await?;
                panic!("in the middle of a write")
            })
        });
        let four =
            store.connections.writer.write("e", 1, |c| Box::pin(note(c, "four", None, Ok(()))));
        let opener = async {
            tokio::task::yield_now().await;
            open.send(()).expect("it waits");
        };
        let (first, one, two, three, four, ()) = tokio::join!(first, one, two, three, four, opener);
        assert!(first.is_ok() && one.is_ok() && four.is_ok());
        assert_eq!(two.expect_err("refused").kind(), StoreErrorKind::Rejected);
        let three: Result<()> = three;
        assert_eq!(three.expect_err("panicked").kind(), StoreErrorKind::Internal);
        assert_eq!(noted(&store).await, ["first", "four", "one"]);
    }

    #[tokio::test]
    async fn work_that_was_handed_over_ends_without_its_caller() {
        let (store, _folder) = store().await;
        let (open, gate) = oneshot::channel();
        {
            let mut write = pin!(store.connections.writer.write("a", 1, |c| Box::pin(note(
                c,
                "orphan",
                Some(gate),
                Ok(())
            ))));
            let first_poll = poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await;
            assert!(first_poll.is_pending());
        }
        open.send(()).expect("it waits, or will");
        store
            .connections
            .writer
            .write("b", 1, |c| Box::pin(note(c, "next", None, Ok(()))))
            .await
            .expect("write");
        assert_eq!(noted(&store).await, ["next", "orphan"]);
    }

    #[tokio::test]
    async fn closing_ends_what_was_handed_over() {
        let (store, _folder) = store().await;
        let (open, gate) = oneshot::channel();
        let write = store
            .connections
            .writer
            .write("a", 1, |c| Box::pin(note(c, "last", Some(gate), Ok(()))));
        let opener = async {
            tokio::task::yield_now().await;
            open.send(()).expect("it waits");
        };
        let (written, (), ()) = tokio::join!(write, store.close(), opener);
        written.expect("it was handed over before");
        let after = store
            .connections
            .writer
            .write("b", 1, |c| Box::pin(note(c, "late", None, Ok(()))))
            .await;
        assert_eq!(after.expect_err("closed").kind(), StoreErrorKind::Unavailable);
    }
}
