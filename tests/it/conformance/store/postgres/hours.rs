//! Rows of hours that another session has locked.

use std::time::Duration;

use punctual::domain::JobId;
use punctual::domain::hours::AccountHour;
use punctual::store::{AttemptEnd, Cancelled, CompletionResult, NewJob};
use tokio::time::timeout;

use super::held::{hold, running};
use super::world;
use crate::conformance::store::world::minute;
use crate::harness::database::Database;

/// The limit of a call on a busy machine. A call that waits for a held row would fail.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Commits and cancellations add to rows that are free. Readers add up all rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_hour_delays_no_end() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let mut jobs = running(&w, 3).await;
    let waiting = w.manual_job(jobs[0].schedule, minute(1)).await;
    let mut other_session = database.second_connection().await;
    let mut rows = async || -> i64 {
        let query = sqlx::query_scalar("SELECT count(*) FROM account_hours");
        query.fetch_one(&mut other_session).await.expect("read")
    };
    let mut end = async || {
        let job = jobs.remove(0);
        let end = w.completion(&job, None, AttemptEnd::Succeeded);
        let committed =
            timeout(TIMEOUT, w.commit(minute(2), &[end])).await.expect("no wait for the held row");
        assert!(matches!(committed.results[..], [CompletionResult::Applied(_)]), "{committed:?}");
        job.job
    };
    end().await;
    assert_eq!(rows().await, 1);
    let mut other = database.second_connection().await;
    let held = hold(&mut other, "account_hours").await;
    end().await;
    assert_eq!(rows().await, 2);
    let write = w.write(minute(2));
    let cancelled = timeout(TIMEOUT, w.store.cancel_job(&write, waiting))
        .await
        .expect("no wait for the held row");
    assert!(matches!(cancelled, Ok(Cancelled::Done(_))), "{cancelled:?}");
    let counted = async || w.store.hours(w.account, minute(0)).await.expect("read");
    let lags = [2, 0, 0, 0, 0, 0, 0, 0];
    let two = AccountHour { succeeded: 2, cancelled: 1, lags, ..AccountHour::empty(minute(0)) };
    assert_eq!(counted().await, [two]);
    let free = 1 + i64::from(inserts(waiting));
    let old = timeout(TIMEOUT, w.store.prune_hours(minute(60), 9))
        .await
        .expect("no wait for the held row");
    assert_eq!(i64::try_from(old.expect("prune")), Ok(free), "the free rows");
    held.rollback().await.expect("roll back");
    let last = end().await;
    assert_eq!(rows().await, 1 + i64::from(inserts(last)), "the row that was held is free");
}

/// Returns `true` for one of a thousand jobs, by the last bytes of the id: the transaction that
/// ends it inserts another row even if there is a free one.
fn inserts(job: JobId) -> bool {
    let [.., a, b, c, d] = job.to_bytes();
    u32::from_be_bytes([a, b, c, d]) % 1_000_000 < 1_000
}

/// All versions of a row stay while a snapshot is open, and each commit would read them again. So
/// one of a thousand commits begins another row, and later ones add to that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_replaced_before_they_have_many_versions() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let schedule = w.schedule().await;
    let mut other_session = database.second_connection().await;
    let mut end = async |seconds: u32, random: u128| -> Vec<i32> {
        let at = minute(1).plus(Duration::from_secs(seconds.into()));
        let job = NewJob { id: JobId::new(minute(1), random), schedule };
        w.store.create_job(&w.write(minute(1)), &job, None).await.expect("create");
        let claimed = w.claim(at, &[job.id]).await.remove(0);
        let end = w.completion(&claimed, None, AttemptEnd::Succeeded);
        let committed = w.commit(at, &[end]).await;
        assert!(matches!(committed.results[..], [CompletionResult::Applied(_)]), "{committed:?}");
        let rows = sqlx::query_scalar("SELECT succeeded FROM account_hours ORDER BY slot");
        rows.fetch_all(&mut other_session).await.expect("read")
    };
    assert_eq!(end(0, 5_000).await, [1]);
    assert_eq!(end(1, 1_000).await, [2]);
    assert_eq!(end(2, 999).await, [2, 1]);
    assert_eq!(end(3, 1_001).await, [2, 2]);
    assert_eq!(end(4, 1_000_000).await, [2, 2, 1]);
    assert_eq!(end(5, 2_000).await, [2, 2, 2]);
    let counted = w.store.hours(w.account, minute(0)).await.expect("read");
    assert_eq!(counted.iter().map(|hour| hour.succeeded).collect::<Vec<_>>(), [6]);
}
