//! Rows of hours that another session has locked.

use punctual::domain::hours::AccountHour;
use punctual::store::{Cancelled, End, Fate};
use tokio::time::timeout;

use super::held::{AT_ONCE, hold, running};
use super::world;
use crate::conformance::store::world::minute;
use crate::harness::database::Database;

/// Commits and cancellations add to rows that are free. Readers add up all rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_hour_delays_no_end() {
    let database = Database::migrated().await;
    let w = world(&database).await;
    let mut jobs = running(&w, 3).await;
    let waiting = w.manual_job(jobs[0].schedule, minute(1)).await;
    let mut beside = database.beside().await;
    let mut rows = async || -> i64 {
        let query = sqlx::query_scalar("SELECT count(*) FROM account_hours");
        query.fetch_one(&mut beside).await.expect("read")
    };
    let mut end = async || {
        let end = w.completion(&jobs.remove(0), None, End::Succeeded);
        let committed = timeout(AT_ONCE, w.commit(minute(2), &[end])).await.expect("at once");
        assert!(matches!(committed.fates[..], [Fate::Applied(_)]), "{committed:?}");
    };
    end().await;
    assert_eq!(rows().await, 1);
    let mut other = database.beside().await;
    let held = hold(&mut other, "account_hours").await;
    end().await;
    assert_eq!(rows().await, 2);
    let write = w.write(minute(2));
    let cancelled = timeout(AT_ONCE, w.store.cancel_job(&write, waiting)).await.expect("at once");
    assert!(matches!(cancelled, Ok(Cancelled::Done(_))), "{cancelled:?}");
    let counted = async || w.store.hours(w.account, minute(0)).await.expect("read");
    let lags = [2, 0, 0, 0, 0, 0, 0, 0];
    let two = AccountHour { succeeded: 2, cancelled: 1, lags, ..AccountHour::empty(minute(0)) };
    assert_eq!(counted().await, [two]);
    let old = timeout(AT_ONCE, w.store.prune_hours(minute(60), 9)).await.expect("at once");
    assert_eq!(old.expect("prune"), 1, "the free row");
    held.rollback().await.expect("roll back");
    end().await;
    assert_eq!(rows().await, 1, "the row that was held has room");
}
