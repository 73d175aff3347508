//! Tests of the writer: what shares a transaction, and what is undone alone.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use super::*;
use crate::store::sql;
use crate::store::sql::connection::access::Access;
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::temporary::store;

/// Writes a row, waits at `gate` if there is one, and returns `end`.
async fn note(
    connection: &mut SqliteConnection,
    name: &'static str,
    gate: Option<oneshot::Receiver<()>>,
    end: SqlResult<()>,
) -> SqlResult<()> {
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
    let query = sql::query_scalar("SELECT name FROM meta WHERE value = 0 ORDER BY name");
    store.connections.scalars("noted", query).await.expect("read")
}

fn writer(store: &SqliteStore) -> &SqliteWriter {
    &store.connections.writer
}

fn refused() -> SqlResult<()> {
    Err(SqlError::new(StoreErrorKind::Rejected, "refused"))
}

#[tokio::test]
async fn work_that_fails_alone_or_panics_is_undone() {
    let (store, _folder) = store().await;
    let failed = writer(&store).write(1, |c| Box::pin(note(c, "failed", None, refused()))).await;
    assert_eq!(failed.expect_err("refused").kind, StoreErrorKind::Rejected);
    let panicked: SqlResult<()> = writer(&store)
        .write(1, |c| {
            Box::pin(async move {
                note(c, "panicked", None, Ok(())).await?;
                panic!("in the middle of a write")
            })
        })
        .await;
    assert_eq!(panicked.expect_err("panicked").kind, StoreErrorKind::Internal);
    assert!(noted(&store).await.is_empty());
    writer(&store).write(1, |c| Box::pin(note(c, "fine", None, Ok(())))).await.expect("it goes on");
    assert_eq!(noted(&store).await, ["fine"]);
}

#[tokio::test]
async fn work_that_fails_beside_others_is_undone_alone() {
    let (store, _folder) = store().await;
    let (open, gate) = oneshot::channel();
    // While the first write occupies the writer, the others gather in the queue.
    let first = writer(&store).write(1, |c| Box::pin(note(c, "first", Some(gate), Ok(()))));
    let one = writer(&store).write(1, |c| Box::pin(note(c, "one", None, Ok(()))));
    let two = writer(&store).write(1, |c| Box::pin(note(c, "two", None, refused())));
    let three = writer(&store).write(1, |c| {
        Box::pin(async move {
            note(c, "three", None, Ok(())).await?;
            panic!("in the middle of a write")
        })
    });
    let four = writer(&store).write(1, |c| Box::pin(note(c, "four", None, Ok(()))));
    let opener = async {
        tokio::task::yield_now().await;
        open.send(()).expect("it waits");
    };
    let (first, one, two, three, four, ()) = tokio::join!(first, one, two, three, four, opener);
    assert!(first.is_ok() && one.is_ok() && four.is_ok());
    assert_eq!(two.expect_err("refused").kind, StoreErrorKind::Rejected);
    let three: SqlResult<()> = three;
    assert_eq!(three.expect_err("panicked").kind, StoreErrorKind::Internal);
    assert_eq!(noted(&store).await, ["first", "four", "one"]);
}

#[tokio::test]
async fn work_that_was_handed_over_ends_without_its_caller() {
    let (store, _folder) = store().await;
    let (open, gate) = oneshot::channel();
    {
        let mut write =
            pin!(writer(&store).write(1, |c| Box::pin(note(c, "orphan", Some(gate), Ok(())))));
        let first_poll = poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await;
        assert!(first_poll.is_pending());
    }
    open.send(()).expect("it waits, or will");
    writer(&store).write(1, |c| Box::pin(note(c, "next", None, Ok(())))).await.expect("write");
    assert_eq!(noted(&store).await, ["next", "orphan"]);
}

#[tokio::test]
async fn closing_ends_what_was_handed_over() {
    let (store, _folder) = store().await;
    let (open, gate) = oneshot::channel();
    let write = writer(&store).write(1, |c| Box::pin(note(c, "last", Some(gate), Ok(()))));
    let opener = async {
        tokio::task::yield_now().await;
        open.send(()).expect("it waits");
    };
    let (written, (), ()) = tokio::join!(write, store.close(), opener);
    written.expect("it was handed over before");
    let after = writer(&store).write(1, |c| Box::pin(note(c, "late", None, Ok(())))).await;
    assert_eq!(after.expect_err("closed").kind, StoreErrorKind::Unavailable);
}
